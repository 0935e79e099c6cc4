"""What every request needs at hand: the router, the log, the replicas' connections, the line."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import attrs

from eventlog import LogError
from eventlog.journal import Journal
from trioroute.events import (
    Configured,
    Draining,
    Ejected,
    Failed,
    InForce,
    Live,
    Probing,
    Released,
    ReplicaJoined,
    ReplicaLeft,
    Scraped,
)
from trioroute.policy.commands import Arrive
from trioroute.policy.retry_budget import RetryBudget
from trioroute.proxy.bodies.reader import BodyReader
from trioroute.proxy.ending import Ending
from trioroute.proxy.errors import RouterError
from trioroute.proxy.gate import LOG_STALLED, Gate
from trioroute.proxy.headers import RawHeaders, harmless_request_id
from trioroute.proxy.keyring import Keyring
from trioroute.proxy.line import Line
from trioroute.proxy.pump import Pump
from trioroute.proxy.upstream.upstreams import Upstreams
from trioroute.proxy.watch import Watch
from trioroute.router import Decided, Router

logger = logging.getLogger("trioroute.proxy")

RETRY_AFTER_MIN_S = 1
RETRY_AFTER_MAX_S = 30

_MAKES_ROOM: frozenset[type] = frozenset(
    {
        Released,
        Failed,
        Live,
        Probing,
        Scraped,
        Ejected,
        Draining,
        Configured,
        ReplicaJoined,
        ReplicaLeft,
    }
)
"""After these a waiting request may find a replica, or learn that there is none to wait for."""

SHUTTING_DOWN = RouterError("shutting_down", "this router is shutting down", None, 1)


class AccessNotes(Protocol):
    """Where requests are noted when they ended (``access_log``)."""

    def note(self, request: Any) -> None:  # noqa: ANN401 - what it notes stands above this floor
        ...


class Spans(Protocol):
    """Where requests are followed as OpenTelemetry spans (``tracing``)."""

    def follow(self, request: Any) -> AbstractContextManager[None]:  # noqa: ANN401 - as above
        ...

    async def close(self) -> None: ...


@attrs.define
class Desk:
    """``measure_*`` take nanoseconds, ``draw`` gives 63 random bits."""

    router: Router
    journal: Journal
    now_ms: Callable[[], int]
    draw: Callable[[], int]
    secret: bytes = attrs.field(repr=False)
    upstreams: Upstreams
    watch: Watch
    measure_decision: Callable[[int], None]
    measure_overhead: Callable[[int], None]
    count_unlogged: Callable[[], None]
    count_refusal: Callable[[str, str | None], None]
    line: Line = attrs.field(factory=Line)
    budget: RetryBudget = attrs.field(factory=RetryBudget)
    access_log: AccessNotes | None = None
    spans: Spans | None = None
    keys: Keyring = attrs.field(factory=Keyring)
    bodies: BodyReader = attrs.field(factory=BodyReader)
    pump: Pump = attrs.field(init=False)
    gate: Gate = attrs.field(init=False)
    stopping: bool = False
    grace_over: bool = False
    """Nothing is begun any more, whoever has waited for it."""
    running: int = 0
    """Requests from before ``stopping``; the others are only told of it."""
    in_use: dict[str, int] = attrs.field(factory=dict)
    """Request ids under way, so that no two requests give an engine the same one."""

    def __attrs_post_init__(self) -> None:
        self.router.listeners.append(self._after)
        self.pump = Pump(self.now_ms)
        self.gate = Gate(self.journal)

    @property
    def settings(self) -> InForce:
        return self.router.state.settings

    def _after(self, decided: Decided) -> None:
        for event in decided.events:
            if type(event) not in _MAKES_ROOM:
                continue
            if self.line:
                self.line.call_first()
            if isinstance(event, Ejected):
                self.upstreams.distrust(event.replica)
            elif isinstance(event, ReplicaLeft):
                self.upstreams.forget(event.replica)

    def request_id(self, headers: RawHeaders) -> str:
        """The client's own, if it may go into the log, else a new one."""
        return harmless_request_id(headers) or f"req-{self.draw():016x}"

    def turned_away(self, *, begun: bool) -> RouterError | None:
        """Why a request gets no replica now, or no further one where it has ``begun``."""
        if self.grace_over or (self.stopping and not begun):
            return SHUTTING_DOWN
        if self.gate.stalled and self.settings.log.on_failure == "refuse":
            return LOG_STALLED
        return None

    def end_grace(self) -> int:
        """From now on nothing is begun. Returns how many that wait in line are told so."""
        self.grace_over = True
        self.line.call_all()
        return len(self.line)

    def end(self, ending: Ending) -> None:
        """Log how a dispatch ended and give its weight back. Plain, so it works while cancelled."""
        try:
            self.router.handle(ending.command(self.now_ms()))
        except LogError as error:
            # Only a log that is lost for good refuses an ending; serve is shutting down then.
            logger.error("the end of dispatch %d is not logged: %s", ending.dispatch, error)

    def could_move(self, arrive: Arrive, *, was_busy: bool) -> bool:
        """Whether the request would find, or may wait for, a replica it has not tried.

        An answer that says busy is worth more to the client than a try at an EJECTED replica.
        """
        choice = self.router.look(arrive)
        if was_busy and choice.reason == "fallback":
            return False
        return choice.verdict in ("chosen", "wait")

    def retry_after_s(self, model: str) -> int:
        """Seconds until the soonest cooldown of the pool ends, 1 to 30 (HTTP.md)."""
        state = self.router.state
        now_ms = self.now_ms()
        pool = [state.health[replica.name] for replica in state.fleet.pool(model)]
        waits = [
            (health.until_ms - now_ms + 999) // 1000 for health in pool if health.stage == "EJECTED"
        ]
        return max(RETRY_AFTER_MIN_S, min(RETRY_AFTER_MAX_S, *waits)) if waits else 1
