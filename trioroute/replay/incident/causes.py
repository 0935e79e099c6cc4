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
from trioroute.replay.incident.told import FirstCause
from trioroute.replay.incident.toll import Toll
from trioroute.replay.told import Line
from trioroute.replay.words import plural

BEFORE_MS = 600_000
"""A change is told with the trouble that it came this long before, and no longer."""

OF_ITS_OWN = frozenset({"eject", "stall", "died", "log", "failure", "standstill"})
"""Kinds of trouble that do not come of missing replicas."""

TROUBLES_MAX = 500
"""Troubles that are kept, the first ones."""

ATTEMPTS_MAX = 10_000
"""Failed attempts whose request may still be tried again."""

UNFELT_MAX = 10
"""Troubles that no client felt, told beside the first cause."""

CHANGES_MAX = 20
"""Changes of a span that are told; of more, the last ones."""


Models = frozenset[str] | None
"""The models that something concerns; None: all, or it is not known."""


@attrs.frozen
class Trouble:
    """``begun_ms`` is when it began, such as with the first failed scrape before an eject."""

    begun_ms: int
    cause: FirstCause
    replica: str | None = None
    models: Models = None


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
            before.append(_line_of(self.failure.cause))
        return (*before,) if self.hole is None else (self.hole, *before)

    def shortage(self, begun_ms: int, cause: FirstCause, models: Models) -> None:
        """Those that were left for ``models`` did not suffice. Where a change had taken some of
        theirs away just before, it is the cause, and the shortage what it led to."""
        taken = [
            line
            for line, served in self.away.values()
            if self._just_before(line, begun_ms) and _meet(served, models)
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
        first, earlier = self._of_span(toll if toll.by else delays, lost), self.earlier
        if first is None or earlier is None:
            return earlier if first is None else first.cause
        theirs_ms = toll.first_of(self.wrong, self.served)
        apart = first.models is not None and first.models.isdisjoint(self.served)
        own = first.cause.kind in OF_ITS_OWN and first.replica not in self.wrong
        if not toll.by or not (own or apart):
            return earlier
        if theirs_ms is not None and theirs_ms < first.begun_ms:
            return earlier
        before = (_line_of(earlier, "earlier"), *first.cause.before)
        return attrs.evolve(first.cause, before=before)

    def _of_span(self, toll: Toll, lost: str | None) -> Trouble | None:
        """The first that can have harmed a client, if some was: one of a model that it is of."""
        if self.failure is None and lost is not None:
            self.failure = self.attempts.get(lost)
        found = sorted(self.troubles, key=lambda one: one.begun_ms)
        failed = self.failure
        theirs = [one for one in found if failed is not None and _meet(one.models, failed.models)]
        if failed is not None and not any(self._felt(one, toll) for one in theirs):
            told = attrs.evolve(failed.cause, before=self._before(failed))
            found.append(attrs.evolve(failed, cause=told))
        felt = [one for one in found if self._felt(one, toll)]
        if not found:
            return None
        first = felt[0] if felt else found[0]
        others = [one for one in found if one is not first and one not in felt]
        unfelt = tuple(_unfelt(one, toll) for one in others[:UNFELT_MAX])
        cause = attrs.evolve(first.cause, felt=bool(felt), unfelt=unfelt)
        return attrs.evolve(first, cause=cause)

    def _felt(self, one: Trouble, toll: Toll) -> bool:
        """Whether it can have harmed a client. One replica that is out or stands still harms who
        runs there, or finds no room without it; what runs on others went on."""
        if one.replica is None or one.cause.kind not in ("eject", "stall"):
            return toll.since(one.begun_ms, one.models)
        until_ms = self.returned.get(one.replica)
        back_ms = None if until_ms is None or until_ms < one.begun_ms else until_ms
        return toll.on(one.replica, one.models, one.begun_ms, back_ms)

    @staticmethod
    def _just_before(line: Line, at_ms: int) -> bool:
        return at_ms - BEFORE_MS <= line.at_ms <= at_ms


def _meet(one: Models, other: Models) -> bool:
    return one is None or other is None or not one.isdisjoint(other)


def _unfelt(one: Trouble, toll: Toll) -> Line:
    line = _line_of(one.cause, one.cause.kind)
    moved = toll.moved[one.replica] if one.replica is not None else 0
    on = f": {plural(moved, 'request')} that failed there went on elsewhere" if moved else ""
    return attrs.evolve(line, text=f"{line.text}; no client was failed or refused by it{on}")


def _line_of(cause: FirstCause, event: str = "Released") -> Line:
    return Line(at_ms=cause.at_ms, place=cause.place or "", event=event, text=cause.text)
