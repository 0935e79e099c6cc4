"""The first requests whose clients were failed or refused, by name."""

import attrs

from trioroute.replay.incident.limbo import Place
from trioroute.replay.incident.told import Harmed
from trioroute.replay.incident.toll import Toll
from trioroute.replay.kept import dispatch_kept
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
    """``toll`` is all harm that the service did, not only that of the first."""

    failed: list[_Hurt] = attrs.field(factory=list)
    refused: list[_Hurt] = attrs.field(factory=list)
    toll: Toll = attrs.field(factory=Toll)

    def fail(
        self, at_ms: int, place: Place, request_id: str, who: Who, got: str, replica: str
    ) -> None:
        """A client saw its request fail, that ran on ``replica`` last."""
        self.toll.take(at_ms, who[0], replica)
        self._keep(self.failed, _Hurt(at_ms, place, request_id, who, got))

    def refuse(self, at_ms: int, place: Place | None, request_id: str, who: Who, got: str) -> None:
        """The service could not take a request; ``place`` is its last dispatch, if it had one."""
        self.toll.take(at_ms, who[0], None)
        self._keep(self.refused, _Hurt(at_ms, place, request_id, who, got))

    def _keep(self, kept: list[_Hurt], one: _Hurt) -> None:
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
