"""Whether there was room for requests: queues that last, and refusals for want of room."""

from collections.abc import Iterator, Mapping

import attrs

from trioroute.projections import State
from trioroute.replay.incident.course import overloaded
from trioroute.replay.incident.evidence import loads_of
from trioroute.replay.told import Line

OVERLOAD_LASTS_MS = 10_000
"""Overload lasts this long after a refusal for want of room, and queues must last it to be one: a
single scrape that finds a queue everywhere is not."""

REFUSED = {
    "overloaded": "there was no room for them",
    "no_healthy_instances": "no replica could take them",
}
"""Refusals for want of room, and what they mean."""


@attrs.define
class Room:
    """``refused`` is the code of the last refusal, and ``model`` what it asked for. ``queues`` is
    what the replicas said when they all began to queue, at ``since_ms``."""

    full_until_ms: int = 0
    refused: str = ""
    model: str | None = None
    waits: str | None = None
    since_ms: int = 0
    until_ms: int = 0
    queues: tuple[Line, ...] = ()

    def refuse(self, at_ms: int, code: str, model: str | None) -> None:
        self.full_until_ms = at_ms + OVERLOAD_LASTS_MS
        self.refused, self.model = code, model

    def look(self, state: State, in_flight: Mapping[str, int], at_ms: int, place: str) -> None:
        """After a round of scrapes."""
        why = overloaded(state)
        if why is not None:
            if self.waits is None:
                self.waits, self.since_ms = why, at_ms
                self.queues = loads_of(state, in_flight, at_ms, place)
            self.until_ms = at_ms + OVERLOAD_LASTS_MS

    def due(self, at_ms: int) -> bool:
        """Whether time alone ends something before ``at_ms``."""
        full = 0 < self.full_until_ms <= at_ms
        return full or (self.waits is not None and self.until_ms <= at_ms)

    def settle(self, at_ms: int) -> Iterator[int]:
        """When what time alone ended before ``at_ms`` ended, one after the other."""
        if self.full_until_ms and self.full_until_ms <= at_ms:
            ended, self.full_until_ms = self.full_until_ms, 0
            yield ended
        if self.waits is not None and self.until_ms <= at_ms:
            self.waits = None
            yield self.until_ms

    def overload(self, at_ms: int) -> str | None:
        """Why there is no room; None: there is."""
        if self.full_until_ms > at_ms:
            return f"requests were refused: {REFUSED[self.refused]} ({self.refused})"
        if self.waits is not None and at_ms - self.since_ms >= OVERLOAD_LASTS_MS:
            return self.waits
        return None
