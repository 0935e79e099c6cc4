"""The first requests whose clients were failed or refused, by name."""

import attrs

from trioroute.replay.incident.limbo import Place
from trioroute.replay.incident.running import dispatch_kept
from trioroute.replay.incident.told import Harmed
from trioroute.replay.plain import Who
from trioroute.replay.read import Source, decision_name

HURT_MAX = 10
"""Requests told by name: those that failed before those that were refused."""

SERVICE = frozenset({"overloaded", "no_healthy_instances", "log_stalled", "shutting_down"})
"""Refusals that are no fault of the client."""


@attrs.frozen
class _Hurt:
    at_ms: int
    place: Place | None
    request_id: str
    who: Who
    got: str


@attrs.define
class Hurt:
    """``first_ms`` is when the service did a client harm for the first time."""

    failed: list[_Hurt] = attrs.field(factory=list)
    refused: list[_Hurt] = attrs.field(factory=list)
    first_ms: int | None = None

    def fail(self, at_ms: int, place: Place, request_id: str, who: Who, got: str) -> None:
        """A client saw its request fail."""
        self._keep(self.failed, _Hurt(at_ms, place, request_id, who, got))

    def refuse(self, at_ms: int, place: Place | None, request_id: str, who: Who, got: str) -> None:
        """The service could not take a request; ``place`` is its last dispatch, if it had one."""
        self._keep(self.refused, _Hurt(at_ms, place, request_id, who, got))

    def _keep(self, kept: list[_Hurt], one: _Hurt) -> None:
        self.first_ms = one.at_ms if self.first_ms is None else min(self.first_ms, one.at_ms)
        if len(kept) < HURT_MAX or one.at_ms < kept[-1].at_ms:
            kept.append(one)
            kept.sort(key=lambda each: each.at_ms)
            del kept[HURT_MAX:]

    def told(self, source: Source) -> tuple[Harmed, ...]:
        """In order of time. The session is in the row of the dispatch."""
        chosen = [*self.failed, *self.refused][:HURT_MAX]
        return tuple(_told(source, one) for one in sorted(chosen, key=lambda each: each.at_ms))


def _told(source: Source, one: _Hurt) -> Harmed:
    event = None if one.place is None else dispatch_kept(source, one.place)
    return Harmed(
        at_ms=one.at_ms,
        request_id=one.request_id,
        decision=None if one.place is None else decision_name(*one.place),
        session=None if event is None else event.session,
        model=one.who[0],
        key=one.who[1],
        got=one.got,
    )
