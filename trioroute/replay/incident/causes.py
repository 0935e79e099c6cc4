"""What may be a first cause, and which of several it is.

Trouble is what took something from the service that nobody had asked for: an eject by the rules of
health, an engine that stopped generating, a router that died, a log that could not be written,
queues or refusals for want of room.
What somebody did on purpose (a drain, a removed replica, an eject by hand, an engine put to sleep,
a stop in order, other settings) is a change and no trouble. A change is the first cause only where
it took replicas away and those that were left did not suffice.
"""

from collections import deque

import attrs

from trioroute.replay.clock import span
from trioroute.replay.incident.felt import Felt, Models, Trouble, line_of, meet
from trioroute.replay.incident.told import FirstCause
from trioroute.replay.incident.toll import Toll
from trioroute.replay.told import Line

BEFORE_MS = 600_000
"""A change is told with the trouble that it came this long before, and no longer."""

OF_ITS_OWN = frozenset({"eject", "stall", "died", "log", "failure", "standstill"})
"""Kinds of trouble that do not come of missing replicas."""

TROUBLES_MAX = 500
"""Troubles that are kept, the first ones."""

ATTEMPTS_MAX = 10_000
"""Failed attempts whose request may still be tried again."""

BESIDE_MAX = 10
"""Troubles that are told beside the first cause: of those that clients felt, and of the others."""

CHANGES_MAX = 20
"""Changes of a span that are told; of more, the last ones."""


@attrs.define
class Causes:
    """``away`` holds, by replica, the change that took it out of traffic and still holds, and the
    models it served.

    ``troubles`` are in the order of their rows. ``earlier``: what was under way when the span
    began, with the replicas ``wrong`` then and the models that they ``served``. ``returned``: when
    a replica was back in traffic the last time.
    """

    troubles: list[Trouble] = attrs.field(factory=list)
    earlier: FirstCause | None = None
    wrong: frozenset[str] = frozenset()
    served: frozenset[str] = frozenset()
    failure: Trouble | None = None
    attempts: dict[str, Trouble] = attrs.field(factory=dict)
    changes: deque[Line] = attrs.field(factory=lambda: deque(maxlen=CHANGES_MAX))
    away: dict[str, tuple[Line, Models]] = attrs.field(factory=dict)
    returned: dict[str, int] = attrs.field(factory=dict)
    hole: Line | None = None

    def under_way(self, at_ms: int, wrong: dict[str, str], served: frozenset[str]) -> None:
        """The span began in trouble, told by replica: its cause is before it."""
        said = f"already under way when the span begins: {'; '.join(wrong.values())}"
        self.earlier = FirstCause(kind="earlier", text=said, at_ms=at_ms, place=None)
        self.wrong, self.served = frozenset(wrong), served

    def missing(self, at_ms: int, place: str) -> None:
        """Rows are missing here: what comes later may not be the first."""
        text = "rows are missing before this one: an earlier cause may be among them"
        self.hole = self.hole or Line(at_ms=at_ms, place=place, event="missing", text=text)

    def change(self, line: Line, away: str | None = None, models: Models = None) -> None:
        """Somebody changed something on purpose; ``away`` is the replica, of ``models``, that it
        took out of traffic."""
        self.changes.append(line)
        if away is not None:
            self.away[away] = (line, models)

    def back(self, replica: str, at_ms: int) -> None:
        """What was taken away, or out, is there again."""
        self.away.pop(replica, None)
        self.returned[replica] = at_ms

    def trouble(self, trouble: Trouble) -> None:
        """Of those that clients felt the one that began first is the first cause."""
        log = trouble.cause.kind == "log" and any(
            one.cause.kind == "log" and one.begun_ms <= trouble.begun_ms for one in self.troubles
        )  # each refusal tells of it again
        if not log and len(self.troubles) < TROUBLES_MAX:
            told = attrs.evolve(trouble.cause, before=self._before(trouble))
            self.troubles.append(attrs.evolve(trouble, cause=told))

    def _before(self, trouble: Trouble) -> tuple[Line, ...]:
        """What came before both the trouble and its cause, and is not the cause or its evidence."""
        cause, until_ms = trouble.cause, min(trouble.begun_ms, trouble.cause.at_ms)
        told = {cause.place, *(line.place for line in cause.evidence)}
        changes = (line for line in self.changes if self._just_before(line, until_ms))
        before = [line for line in changes if line.place not in told]
        if self.failure is not None and self.failure.begun_ms < until_ms:
            before.append(line_of(self.failure.cause))
        return (*before,) if self.hole is None else (self.hole, *before)

    def shortage(self, begun_ms: int, cause: FirstCause, models: Models) -> None:
        """Those that were left for ``models`` did not suffice. Where a change had taken some of
        theirs away just before, it is the cause, and the shortage what it led to."""
        taken = [
            line
            for line, served in self.away.values()
            if self._just_before(line, begun_ms) and meet(served, models)
        ]
        if taken:
            first = taken[0]
            then = Line(
                at_ms=cause.at_ms, place=cause.place or "", event="overload", text=cause.text
            )
            evidence = (*taken[1:], then, *cause.evidence)
            cause = FirstCause(
                kind="change",
                text=f"{first.text}; {span(begun_ms - first.at_ms)} later {cause.text}",
                at_ms=first.at_ms,
                place=first.place,
                evidence=evidence,
            )
        self.trouble(Trouble(begun_ms, cause, models=models))

    def fail(self, failed: Trouble) -> None:
        """A request failed: the first one is the first cause where nothing greater did harm."""
        if self.failure is None:
            self.failure = failed

    def try_failed(self, decision: str, failed: Trouble) -> None:
        """An attempt failed; only its request's end tells whether a client saw it."""
        if len(self.attempts) < ATTEMPTS_MAX:
            self.attempts[decision] = failed

    def tried_again(self, decision: str) -> None:
        self.attempts.pop(decision, None)

    def support(self, place: str, line: Line) -> None:
        """A row that came after the cause and belongs to it, if that is the one at ``place``."""
        for at, one in enumerate(self.troubles):
            if one.cause.place == place:
                cause = attrs.evolve(one.cause, evidence=(*one.cause.evidence, line))
                self.troubles[at] = attrs.evolve(one, cause=cause)

    def led_to(self, replica: str, line: Line) -> None:
        """An eject of a replica that is stalled belongs to its stall."""
        for one in reversed(self.troubles):
            if one.cause.kind == "stall" and one.replica == replica and one.cause.place:
                self.support(one.cause.place, line)
                return

    def told(self, toll: Toll, delays: Toll, *, lost: str | None) -> FirstCause | None:
        """``lost``: the last attempt of the first request that failed in all of them. ``delays``
        are the harm where nobody was failed or refused.

        What was under way is the cause, unless all of the harm that it can have done came after the
        beginning of trouble that has nothing to do with it.
        """
        felt = Felt(toll, delays, self.returned)
        found = self._of_span(felt, lost)
        earlier = self.earlier
        first = next((one for one in found if felt.by(one)), found[0] if found else None)
        if earlier is not None and (first is None or self._came_of(earlier, first, felt)):
            theirs = self._theirs_ms(felt) is not None
            own = first is None or self._own(first)
            earlier = attrs.evolve(earlier, felt=theirs or not own)
            return _beside(earlier, found, felt)
        if first is None:
            return None
        cause = attrs.evolve(first.cause, felt=felt.by(first))
        if earlier is not None:
            cause = attrs.evolve(cause, before=(line_of(earlier, "earlier"), *cause.before))
        return _beside(cause, [one for one in found if one is not first], felt)

    def _came_of(self, earlier: FirstCause, first: Trouble, felt: Felt) -> bool:
        """Whether what was under way may have led to the first trouble of the span, or did harm
        before it."""
        if not self._own(first):
            return True
        theirs_ms = self._theirs_ms(felt)
        return theirs_ms is not None and (theirs_ms < first.begun_ms or not felt.by(first))

    def _theirs_ms(self, felt: Felt) -> int | None:
        """When the first client was harmed that what was under way can have harmed."""
        back = {name: self.returned.get(name) for name in self.wrong}
        return felt.harm.first_of(back, self.served)

    def _own(self, one: Trouble) -> bool:
        """Whether it has nothing to do with what was under way."""
        apart = one.models is not None and one.models.isdisjoint(self.served)
        return apart or (one.cause.kind in OF_ITS_OWN and one.replica not in self.wrong)

    def _of_span(self, felt: Felt, lost: str | None) -> list[Trouble]:
        """All trouble as it began, and after it a failure that none of it explains."""
        if self.failure is None and lost is not None:
            self.failure = self.attempts.get(lost)
        found = sorted(self.troubles, key=lambda one: one.begun_ms)
        failed = self.failure
        theirs = [one for one in found if failed is not None and meet(one.models, failed.models)]
        if failed is not None and not any(felt.by(one) for one in theirs):
            told = attrs.evolve(failed.cause, before=self._before(failed))
            found.append(attrs.evolve(failed, cause=told))
        return found

    @staticmethod
    def _just_before(line: Line, at_ms: int) -> bool:
        return at_ms - BEFORE_MS <= line.at_ms <= at_ms


def _beside(cause: FirstCause, others: list[Trouble], felt: Felt) -> FirstCause:
    """With the other trouble of the span, parted by whether clients can have felt it."""
    also = tuple(felt.line(one) for one in others if felt.at_all(one))
    unfelt = tuple(felt.line(one) for one in others if not felt.at_all(one))
    return attrs.evolve(cause, also=also[:BESIDE_MAX], unfelt=unfelt[:BESIDE_MAX])
