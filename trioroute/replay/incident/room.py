"""Whether there was room for requests: queues that last, and refusals for want of room."""

from collections.abc import Container, Iterator, Mapping
from itertools import zip_longest

import attrs

from trioroute.projections import State
from trioroute.replay.incident.course import overloaded
from trioroute.replay.incident.evidence import loads_of
from trioroute.replay.told import Line

OVERLOAD_LASTS_MS = 10_000
"""Refusals this close to each other are of one overload, and queues must last so long to be one: a
single scrape that finds a queue everywhere is not."""

THEN_MAX = 100
"""Turns of a phase that are kept until it is known whether refusals go on."""

MODELS_MAX = 5
"""Models of one overload that are named."""

REFUSED = {
    "overloaded": "there was no room for them",
    "no_healthy_instances": "no replica could take them",
}
"""Refusals for want of room, and what they mean."""


@attrs.define
class Room:
    """``refused`` is the code of the last refusal, and ``model`` what it asked for; until
    ``full_until_ms`` a further one is of the same overload, which refused requests for ``models``.
    ``then``: what it was since the last one, if that was the last of an overload; empty: there is
    none. ``queues`` is what the replicas said when they all began to queue, at ``since_ms``."""

    full_until_ms: int = 0
    then: list[tuple[int, str, str]] = attrs.field(factory=list)
    refused: str = ""
    model: str | None = None
    models: dict[str, None] = attrs.field(factory=dict)
    waits: str | None = None
    since_ms: int = 0
    until_ms: int = 0
    queues: tuple[Line, ...] = ()

    def refuse(self, at_ms: int, code: str, model: str | None) -> None:
        if not self.full_until_ms:
            self.models.clear()
        if model is not None and len(self.models) < MODELS_MAX:
            self.models[model] = None
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

    def refusals(self) -> str:
        whose = f" for {', '.join(self.models)}" if self.models else ""
        return f"requests{whose} were refused: {REFUSED[self.refused]} ({self.refused})"

    def goes_on(self, at_ms: int, name: str, why: str) -> None:
        """What it is from ``at_ms`` on, unless refusals go on."""
        if self.then[-1][1:] != (name, why) and len(self.then) < THEN_MAX:
            self.then.append((at_ms, name, why))

    def was(self, from_ms: int, name: str, why: str, lesser: Container[str]) -> None:
        """It was ``name`` since then where something ``lesser`` was kept."""
        made = list[tuple[int, str, str]]()
        ends = [at_ms for at_ms, *_ in self.then[1:]]
        for (at_ms, told, words), end_ms in zip_longest(self.then, ends):
            is_less = told in lesser and (end_ms is None or end_ms > from_ms)
            if not is_less or at_ms < from_ms:
                made.append((at_ms, told, words))
            if is_less:
                made.append((max(at_ms, from_ms), name, why))
        self.then = made

    def queued(self, at_ms: int) -> str | None:
        """Why there is no room, as replicas tell it; None: there is."""
        if self.waits is not None and at_ms - self.since_ms >= OVERLOAD_LASTS_MS:
            return self.waits
        return None
