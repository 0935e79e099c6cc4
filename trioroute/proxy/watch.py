"""Limits in time of everything under way, kept by one task that looks at all of it now and then.

A timer per chunk would cost more than relaying the chunk; here a chunk costs one assignment.
"""

from collections.abc import Callable
from typing import Literal

import attrs
import trio

from trioroute.clock import HELD_UP_MS
from trioroute.counted import plural
from trioroute.events import InForce

Phase = Literal["first_byte", "idle", "client_stall", "log"]
Limit = Literal["first_byte", "idle", "client_stall", "log", "total", "stream_grace"]

TELL_EVERY_MS = 60_000
"""A machine that starves its router does so again and again: one line a minute tells it."""

LOG_FROM_MS = 1000
"""A shorter one is in the process log only: a machine that starves its router writes no more than a
row a second."""

LOOK_EVERY_MIN_MS = 20
LOOK_EVERY_MAX_MS = 500


@attrs.define(eq=False, slots=True)
class Watched:
    """One attempt: ``since_ms`` is when its ``phase`` last made progress.

    When a limit is over, ``broken`` names it and ``scope`` is cancelled.
    """

    replica: str
    scope: trio.CancelScope
    started_ms: int
    since_ms: int
    phase: Phase = "first_byte"
    broken: Limit | None = None

    def enter(self, phase: Phase, now_ms: int) -> None:
        """Begin a phase, or the same one anew because something came."""
        self.phase = phase
        self.since_ms = now_ms


@attrs.define(eq=False)
class Watch:
    """``refuses`` tells whether a replica is out because it refuses connections (RULES 6.13).

    Such a replica gets the grace from when that was noticed, or from its last byte if that is
    later; requests that have no byte yet are given up too, for nobody will answer them.
    ``tell`` gets a line where the router itself stood still, and ``stood`` for how long, each time
    that it was for ``LOG_FROM_MS`` or longer.
    """

    now_ms: Callable[[], int]
    settings: Callable[[], InForce]
    refuses: Callable[[str], bool]
    tell: Callable[[str], None] = lambda _: None
    stood: Callable[[int], None] = lambda _: None
    _open: set[Watched] = attrs.field(factory=set, init=False)
    _refusing: dict[str, int] = attrs.field(factory=dict, init=False)
    _told_ms: int | None = attrs.field(default=None, init=False)
    _untold: int = attrs.field(default=0, init=False)

    def __len__(self) -> int:
        return len(self._open)

    def open(self, replica: str, scope: trio.CancelScope) -> Watched:
        now_ms = self.now_ms()
        watched = Watched(replica, scope, now_ms, now_ms)
        self._open.add(watched)
        return watched

    def close(self, watched: Watched) -> None:
        self._open.discard(watched)

    async def run(self) -> None:
        """Look at all that is open, often enough for the shortest limit."""
        while True:
            every_ms = self._look_every_ms()
            due_ms = self.now_ms() + every_ms
            await trio.sleep(every_ms / 1000)
            self.forgive(self.now_ms() - due_ms)
            self.look()

    def forgive(self, late_ms: int) -> None:
        """Take what the router itself was late off what it waited for: while it stood still, nobody
        had a chance to be in time, and all limits at once would blame a whole fleet."""
        if late_ms >= HELD_UP_MS:
            now_ms = self.now_ms()
            for watched in self._open:
                watched.since_ms = min(now_ms, watched.since_ms + late_ms)
                watched.started_ms = min(now_ms, watched.started_ms + late_ms)
            self._tell(late_ms, now_ms)
        if late_ms >= LOG_FROM_MS:
            self.stood(late_ms)

    def _tell(self, late_ms: int, now_ms: int) -> None:
        if self._told_ms is not None and now_ms - self._told_ms < TELL_EVERY_MS:
            self._untold += 1
            return
        more = (
            f", and {plural(self._untold, 'time')} before, since it was last told"
            if self._untold
            else ""
        )
        self.tell(
            f"the router itself stood still for {late_ms / 1000:.1f} s{more} (stopped, paused or "
            "swapped out, or too little CPU): no limit of time ran meanwhile; "
            f"{plural(len(self._open), 'request')} under way"
        )
        self._told_ms, self._untold = now_ms, 0

    def look(self) -> None:
        """Cancel whatever is over its limit."""
        now_ms = self.now_ms()
        self._refusing = {
            name: self._refusing.get(name, now_ms)
            for name in {watched.replica for watched in self._open}
            if self.refuses(name)
        }
        for watched in list(self._open):
            if watched.broken is None:
                watched.broken = self.over(watched)
                if watched.broken is not None:
                    watched.scope.cancel()

    def over(self, watched: Watched) -> Limit | None:
        """The limit that it is over right now."""
        now_ms = self.now_ms()
        timeouts = self.settings().timeouts
        if timeouts.total_ms and now_ms - watched.started_ms >= timeouts.total_ms:
            return "total"
        silent_ms = now_ms - watched.since_ms
        if watched.phase == "log":
            log = self.settings().log
            waits = log.on_failure == "serve"  # then the gate itself lets the response go
            return "log" if not waits and silent_ms >= log.gate_wait_ms else None
        if watched.phase == "client_stall":
            return "client_stall" if _reached(silent_ms, timeouts.client_stall_ms) else None
        if watched.phase == "first_byte" and _reached(silent_ms, timeouts.first_byte_ms):
            return "first_byte"
        if watched.phase == "idle" and _reached(silent_ms, timeouts.idle_ms):
            return "idle"
        refusing_ms = now_ms - max(watched.since_ms, self._refusing.get(watched.replica, now_ms))
        return "stream_grace" if _reached(refusing_ms, self._grace_ms()) else None

    def _grace_ms(self) -> int:
        return self.settings().eject.stream_grace_ms

    def _look_every_ms(self) -> int:
        settings = self.settings()
        timeouts = settings.timeouts
        limits = (
            timeouts.first_byte_ms,
            timeouts.idle_ms,
            timeouts.total_ms,
            timeouts.client_stall_ms,
            settings.eject.stream_grace_ms,
            settings.log.gate_wait_ms,
        )
        shortest = min((limit for limit in limits if limit), default=LOOK_EVERY_MAX_MS * 10)
        return min(LOOK_EVERY_MAX_MS, max(LOOK_EVERY_MIN_MS, shortest // 10))


def _reached(silent_ms: int, limit_ms: int) -> bool:
    return limit_ms > 0 and silent_ms >= limit_ms
