"""Requests whose attempt and whose client did not end in one row: each is counted once.

An attempt fails, and its request is tried again or refused after it. Where the log takes nothing it
is the other way round: the client gets its 503 first, then the attempt ends as failed.
"""

from collections.abc import Iterable

import attrs

from trioroute.replay.plain import Who
from trioroute.replay.read import decision_name

LIMBO_MAX = 10_000
"""Failed attempts whose request may still be tried again."""

Place = tuple[str, int]
"""Stream and number of a dispatch."""


@attrs.frozen
class Lost:
    """A request whose last attempt failed at ``at_ms``, in ``row``, and nothing came after it."""

    place: Place
    who: Who
    request_id: str
    at_ms: int
    cause: str
    blame: str
    replica: str
    row: str = ""


@attrs.define
class Limbo:
    """``answered``: dispatches that run on although their client was refused already."""

    failed: dict[Place, Lost] = attrs.field(factory=dict)
    answered: set[Place] = attrs.field(factory=set)

    def fail(self, lost: Lost) -> Lost | None:
        """An attempt failed. The oldest one that is waited for no more, if they are too many."""
        if lost.place in self.answered:
            self.answered.discard(lost.place)
            return None
        self.failed[lost.place] = lost
        if len(self.failed) <= LIMBO_MAX:
            return None
        return self.failed.pop(next(iter(self.failed)))

    def tried_again(self, stream: str, earlier: Iterable[int]) -> bool:
        """Whether the request of these attempts is known."""
        found = [self.failed.pop((stream, number), None) for number in earlier]
        return any(one is not None for one in found)

    def refused(self, request_id: str) -> Place | None:
        """Its last failed attempt, None if it has none."""
        places = [place for place, one in self.failed.items() if one.request_id == request_id]
        for place in places:
            del self.failed[place]
        return places[-1] if places else None

    def first(self) -> str | None:
        """The last attempt of the request that failed first, of those that nothing came after."""
        lost = min(self.failed.values(), key=lambda one: one.at_ms, default=None)
        return None if lost is None else decision_name(*lost.place)
