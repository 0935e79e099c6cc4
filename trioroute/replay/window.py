"""The stretch of a log that a simulation goes on from: requests around the first difference."""

from collections import deque

import attrs

from eventlog.record import Record
from trioroute.events import (
    Configured,
    Dispatched,
    Draining,
    Ejected,
    Event,
    Failed,
    InForce,
    Live,
    Probing,
    Rebound,
    Released,
    ReplicaJoined,
    ReplicaLeft,
    Spilled,
    Started,
)
from trioroute.policy.decide import arrive_of
from trioroute.projections import State
from trioroute.replay.read import decision_name
from trioroute.replay.what_if import Onlooker
from trioroute.simulate.recorded import Recorded

WARM_REQUESTS = 1000
"""Requests before the first difference that warm the simulated caches and pins up."""

REQUESTS_MAX = 3000
"""Requests after it that are simulated: six runs of so many take about a minute."""

FAILED_MAX = 1000
"""Failed attempts that may still be tried again."""

_FLEET_CHANGES = (
    Started,
    Configured,
    Ejected,
    Probing,
    Live,
    Draining,
    ReplicaJoined,
    ReplicaLeft,
)


@attrs.define
class Begun:
    """Where the log would have gone another way, and what was in force there."""

    decision: str
    at_ms: int
    model: str
    settings: InForce
    replicas: tuple[str, ...]
    cache_tokens: int | None


@attrs.define
class Window(Onlooker):
    """Collected while the log is read; bounded, however long that is.

    The fleet is the same all through: a change of it before the first difference lets the warm-up
    begin anew, one after it ends the window (``ended`` says with what).
    """

    before: deque[Recorded] = attrs.field(factory=lambda: deque(maxlen=WARM_REQUESTS))
    after: list[Recorded] = attrs.field(factory=list)
    begun: Begun | None = None
    ended: str | None = None
    spills: int = 0
    rebinds: int = 0
    streams: dict[str, None] = attrs.field(factory=dict)
    _flights: dict[int, Recorded] = attrs.field(factory=dict)
    _failed: dict[int, Recorded] = attrs.field(factory=dict)

    @property
    def requests(self) -> list[Recorded]:
        """All of them in order of time, of the one model."""
        model = self.begun.model if self.begun is not None else ""
        return [one for one in (*self.before, *self.after) if one.model == model]

    def first_difference(self, record: Record, event: Dispatched, state: State) -> None:
        pool = [one.name for one in state.fleet.pool(event.model)]
        live = tuple(name for name in pool if state.standing(name) == "LIVE")
        told = [state.load.of(name).cache_tokens for name in live]
        self.begun = Begun(
            decision_name(record.stream, record.version),
            record.at_ms,
            event.model,
            state.settings,
            live,
            min((tokens for tokens in told if tokens is not None), default=None),
        )

    def row(self, record: Record, event: Event, state: State) -> None:
        self.streams[record.stream] = None
        if isinstance(event, Dispatched):
            self._dispatched(record, event, state)
        elif isinstance(event, Released):
            self._released(record, event)
        elif isinstance(event, Failed):
            self._fail(event)
        elif isinstance(event, _FLEET_CHANGES):
            self._fleet_changed(record, event, state)
        elif self.begun is not None and self.ended is None:
            self.spills += isinstance(event, Spilled)
            self.rebinds += isinstance(event, Rebound)

    def _dispatched(self, record: Record, event: Dispatched, state: State) -> None:
        earlier = [self._failed.pop(number, None) for number in event.earlier]
        one = next((known for known in earlier if known is not None), None)
        if one is not None:
            one.replica, one.retried = event.replica, True
        elif self.ended is None and not event.earlier:
            one = Recorded(
                decision_name(record.stream, record.version),
                record.at_ms,
                event.prompt_bytes,
                event.session,
                event.prefix,
                model=event.model,
                replica=event.replica,
                blocks=arrive_of(event, record.at_ms, state).blocks,
            )
            self._keep(one)
        if one is not None:
            self._flights[record.version] = one

    def _keep(self, one: Recorded) -> None:
        if self.begun is None:
            self.before.append(one)
        elif len(self.after) < REQUESTS_MAX:
            self.after.append(one)
        else:
            self.ended = f"{one.name}: {REQUESTS_MAX} requests are simulated at most"

    def _released(self, record: Record, event: Released) -> None:
        one = self._flights.pop(event.dispatch, None)
        if one is None or event.outcome != "ok":
            return
        one.prompt_tokens, one.answer_tokens = event.prompt_tokens, event.completion_tokens
        one.ttfb_ms, one.duration_ms = event.ttfb_ms, event.duration_ms
        one.answer_bytes = event.bytes
        if one.retried:
            one.duration_ms = record.at_ms - one.at_ms

    def _fail(self, event: Failed) -> None:
        one = self._flights.pop(event.dispatch, None)
        if one is not None:
            self._failed[event.dispatch] = one
            if len(self._failed) > FAILED_MAX:
                del self._failed[next(iter(self._failed))]

    def _fleet_changed(self, record: Record, event: Event, state: State) -> None:
        if isinstance(event, Started):
            self._flights.clear()
            self._failed.clear()
        if isinstance(event, Configured) and event.settings == state.settings:
            return
        if self.begun is None:
            self.before.clear()
        elif self.ended is None:
            name = decision_name(record.stream, record.version)
            self.ended = f"{name}: {_changed(record, event)}"


def _changed(record: Record, event: Event) -> str:
    match event:
        case Started():
            return "there the router started again"
        case Configured():
            return "there other settings came into force"
        case _:
            return f"there the fleet changed ({record.kind} {getattr(event, 'replica', '')})"
