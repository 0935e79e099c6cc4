"""What the connections of one server share: the watch, the sweep, the count, the clock line."""

import logging
from collections.abc import Callable, Iterable, Sequence
from email.utils import formatdate
from typing import Protocol

import attrs
import trio

from trioroute.clock import HELD_UP_MS
from trioroute.proxy.serving.hangup import HangupWatch
from trioroute.proxy.serving.limits import ServerLimits
from trioroute.proxy.serving.parser import KnownHead, RequestHead, known_within
from trioroute.proxy.serving.refusal import Refusal
from trioroute.proxy.serving.wire import Wire

MAX_SWEEP_S = 1.0
TELL_EVERY_S = 60.0
FIRST_REQUEST_S = 1.0
"""How long a connection that has not been used yet keeps the end waiting: its request is on its way
most likely, and whoever has just connected cannot know that it would be lost."""

logger = logging.getLogger("trioroute.proxy")

Headers = Sequence[tuple[bytes, bytes]]
Door = Callable[[bytes, Headers], Refusal | None]
RefusalBody = Callable[[bytes, Refusal], bytes]
"""The body of a refusal as clients of a path read it; empty: as it is."""
Asked = RequestHead | KnownHead | bytes
"""What is known of the head of a request; or the bytes that there are of it."""


class Timed(Protocol):
    """What waits for a client."""

    deadline: float

    def expire(self) -> None:
        """The deadline passed: end the wait."""


class Hub:
    """The state of one server.

    `on_refusal(code)` is called once for each request the server answers itself (refusal.py).
    """

    def __init__(
        self,
        limits: ServerLimits,
        on_refusal: Callable[[str], None] | None,
        door: Door | None = None,
        refusal_headers: Callable[[Headers], Headers] | None = None,
        refusal_body: RefusalBody | None = None,
    ) -> None:
        self.limits = limits
        self.door = door
        """Says who does not get in, from path and headers, before a body is read."""
        self._refusal_headers = refusal_headers
        self._refusal_body = refusal_body
        self.drain_begun = trio.Event()
        self.ending = False
        """No further request of a connection is waited for."""
        self.ended = False
        """No first one either."""
        self.watch = HangupWatch()
        self.date_line = b""
        shortest = min(
            limits.keep_alive_s,
            limits.header_timeout_s,
            limits.body_timeout_s,
            limits.client_stall_ms / 1000,
        )
        self._tick_s = max(0.01, min(MAX_SWEEP_S, shortest / 4))
        self._next_sweep_s = trio.current_time() + self._tick_s
        self.held_up_s = 0.0
        """How long the router itself stood still, all told: for limits that outlive one wait."""
        self._wires: set[Wire] = set()
        self._idle: set[Wire] = set()
        self._unused: set[Wire] = set()
        self._answers: set[Timed] = set()
        self._told_s = float("-inf")
        self._on_refusal = on_refusal
        self._renew_date()

    @property
    def draining(self) -> bool:
        """No connection is kept open after a response."""
        return self.drain_begun.is_set()

    @property
    def full(self) -> bool:
        """Whether one more connection would be over the limit."""
        return len(self._wires) >= self.limits.max_connections

    def add(self, wire: Wire) -> None:
        """Take care of a connection until `remove`."""
        self._wires.add(wire)
        self.watch.add(wire.fd, wire)

    def remove(self, wire: Wire) -> None:
        """Forget a connection; call before its socket is closed."""
        self._wires.discard(wire)
        self.set_idle(wire, False)
        self.watch.remove(wire.fd)

    def keep_time(self, answer: Timed) -> None:
        """Expire it when its deadline passes, until `forget`."""
        self._answers.add(answer)

    def forget(self, answer: Timed) -> None:
        """It is over."""
        self._answers.discard(answer)

    def set_idle(self, wire: Wire, idle: bool, unused: bool = False) -> None:
        """Idle connections (no byte of a request yet) are closed first in the end; ``unused`` ones,
        which never had a request, FIRST_REQUEST_S later."""
        if idle:
            self._idle.add(wire)
            if unused:
                self._unused.add(wire)
        else:
            self._idle.discard(wire)
            self._unused.discard(wire)

    def deadline(self, limit_s: float) -> float:
        """When a wait that begins now is over: never early, and late by two sweeps at most.

        Counted from the next sweep, because asking Trio for the time takes 1 µs.
        """
        return self._next_sweep_s + limit_s

    def refused(self, code: str) -> None:
        """Count a refusal."""
        if self._on_refusal is not None:
            self._on_refusal(code)

    def tell(self, trouble: str) -> None:
        """A line of the process log, at most one in TELL_EVERY_S: anybody can make one come."""
        now_s = trio.current_time()
        if now_s >= self._told_s + TELL_EVERY_S:
            self._told_s = now_s
            logger.warning("%s", trouble)

    def addressed(self, refusal: Refusal, asked: Asked) -> Refusal:
        """The refusal with what depends on its request: further headers (whose answer it is, and
        what lets a browser's page read it), and the shape of errors that its path has."""
        if isinstance(asked, bytes):
            asked = known_within(asked)
        if self._refusal_headers is not None:
            said = {name for name, _ in refusal.extra}
            further = [one for one in self._refusal_headers(asked.headers) if one[0] not in said]
            refusal = attrs.evolve(refusal, extra=(*refusal.extra, *further))
        if self._refusal_body is not None and not refusal.told:
            refusal = attrs.evolve(refusal, told=self._refusal_body(asked.path, refusal))
        return refusal

    async def run(self) -> None:
        """Sweep until cancelled: end every wait whose deadline passed.

        One pass over all connections per tick instead of one timer per wait: a timer costs 2 µs
        for each wait, a pass of 1,000 connections 50 µs a second.
        """
        while True:
            now_s = trio.current_time()
            self._forgive(now_s - self._next_sweep_s)
            self._next_sweep_s = now_s + self._tick_s
            timed: list[Timed] = [*self._wires, *self._answers]
            for one in timed:
                if one.deadline <= now_s:
                    one.expire()
            self._renew_date()
            await trio.sleep(self._tick_s)

    def _forgive(self, late_s: float) -> None:
        """While the router stood still no client had a chance to be in time (as ``proxy.watch``);
        only what nobody waits for, a connection between two requests, grew old."""
        if late_s * 1000 >= HELD_UP_MS:
            self.held_up_s += late_s
            resting = self._idle - self._unused
            busy: list[Timed] = [*(self._wires - resting), *self._answers]
            for one in busy:
                one.deadline += late_s

    async def drain_after(self, drain: trio.Event | None, shutdown: trio.Event) -> None:
        """From the first on each connection closes after its response, which says so; at the second
        those close that wait for a further request.

        None is closed at the first: whoever uses a kept connection at that moment would get an
        end without an answer, and may send a POST no second time (RFC 9110, 9.2.2).
        """
        await (shutdown if drain is None else drain).wait()
        self.drain_begun.set()
        await shutdown.wait()
        self.ending = True
        _expire(self._idle - self._unused)
        await trio.sleep(FIRST_REQUEST_S)
        self.ended = True
        _expire(self._idle)

    def _renew_date(self) -> None:
        self.date_line = b"date: %b\r\n" % formatdate(usegmt=True).encode()


def _expire(wires: Iterable[Wire]) -> None:
    for wire in list(wires):
        wire.expire()
