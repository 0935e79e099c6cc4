"""What may be a first cause, and which of several it is.

Trouble is what took something from the service that nobody had asked for: an eject by the rules of
health, a router that died, a log that could not be written, queues or refusals for want of room.
What somebody did on purpose (a drain, a removed replica, an eject by hand, an engine put to sleep,
a stop in order, other settings) is a change and no trouble. A change is the first cause only where
it took replicas away and those that were left did not suffice.
"""

from collections import deque

import attrs

from trioroute.replay.clock import span
from trioroute.replay.incident.told import FirstCause
from trioroute.replay.told import Line

BEFORE_MS = 600_000
"""A change is told with the trouble that it came this long before, and no longer."""

OF_ITS_OWN = frozenset({"eject", "died", "log", "failure"})
"""Kinds of trouble that do not come of missing replicas."""

KNOWN_MAX = 10_000
"""Rows of trouble whose replica is known."""

CHANGES_MAX = 20
"""Changes of a span that are told; of more, the last ones."""


@attrs.define
class Causes:
    """``away`` holds, by replica, the change that took it out of traffic and still holds.

    ``begun_ms`` is when the cause began, such as with the first failed scrape before an eject.
    ``earlier``: what was under way when the span began, with the replicas ``wrong`` then;
    ``about``: by its place, the replica that trouble came from.
    """

    cause: FirstCause | None = None
    begun_ms: int = 0
    earlier: FirstCause | None = None
    wrong: frozenset[str] = frozenset()
    about: dict[str, str] = attrs.field(factory=dict)
    failure: FirstCause | None = None
    attempt: FirstCause | None = None
    changes: deque[Line] = attrs.field(factory=lambda: deque(maxlen=CHANGES_MAX))
    away: dict[str, Line] = attrs.field(factory=dict)
    hole: Line | None = None

    def under_way(self, at_ms: int, wrong: dict[str, str]) -> None:
        """The span began in trouble, told by replica: its cause is before it."""
        said = f"already under way when the span begins: {'; '.join(wrong.values())}"
        self.earlier = FirstCause(kind="earlier", text=said, at_ms=at_ms, place=None)
        self.wrong = frozenset(wrong)

    def missing(self, at_ms: int, place: str) -> None:
        """Rows are missing here: what comes later may not be the first."""
        text = "rows are missing before this one: an earlier cause may be among them"
        self.hole = self.hole or Line(at_ms=at_ms, place=place, event="missing", text=text)

    def change(self, line: Line, away: str | None = None) -> None:
        """Somebody changed something on purpose; ``away`` is the replica it took out of traffic."""
        self.changes.append(line)
        if away is not None:
            self.away[away] = line

    def back(self, replica: str) -> None:
        """What was taken away is there again."""
        self.away.pop(replica, None)

    def trouble(self, begun_ms: int, cause: FirstCause, replica: str | None = None) -> None:
        """The trouble that began first is the first cause; what began later only follows."""
        self._know(cause.place, replica)
        if self.cause is None or begun_ms < self.begun_ms:
            before = tuple(line for line in self.changes if self._just_before(line, begun_ms))
            if self.failure is not None and self.failure.at_ms < begun_ms:
                before = (*before, _line_of(self.failure))
            if self.hole is not None:
                before = (self.hole, *before)
            self.cause = attrs.evolve(cause, before=before)
            self.begun_ms = begun_ms

    def shortage(self, begun_ms: int, cause: FirstCause) -> None:
        """Those that were left did not suffice. Where a change had taken some away just before,
        the change is the cause, and the shortage what it led to."""
        taken = [line for line in self.away.values() if self._just_before(line, begun_ms)]
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
        self.trouble(begun_ms, cause)

    def fail(self, at_ms: int, place: str, text: str, replica: str | None) -> None:
        """The first request that failed: the first cause where nothing greater is in the log."""
        self._know(place, replica if self.failure is None else None)
        if self.failure is None:
            self.failure = FirstCause(kind="failure", text=text, at_ms=at_ms, place=place)

    def try_failed(self, at_ms: int, place: str, text: str, replica: str | None) -> None:
        """The first attempt that failed; only its request's end tells whether a client saw it."""
        self._know(place, replica if self.attempt is None else None)
        if self.attempt is None:
            self.attempt = FirstCause(kind="failure", text=text, at_ms=at_ms, place=place)

    def support(self, place: str, line: Line) -> None:
        """A row that came after the cause and belongs to it, if that is the one at ``place``."""
        if self.cause is not None and self.cause.place == place:
            self.cause = attrs.evolve(self.cause, evidence=(*self.cause.evidence, line))

    def _know(self, place: str | None, replica: str | None) -> None:
        if place is not None and replica is not None and len(self.about) < KNOWN_MAX:
            self.about[place] = replica

    def told(self, *, lost: bool, harmed_ms: int | None) -> FirstCause | None:
        """``lost``: some request failed in all its attempts; ``harmed_ms``: when the service did
        a client harm for the first time. What was under way is the cause, unless all of the harm
        came after the beginning of trouble that has nothing to do with it."""
        cause, earlier = self._of_span(lost), self.earlier
        if cause is None or earlier is None:
            return cause or earlier
        of_its_own = (
            cause.kind in OF_ITS_OWN and self.about.get(cause.place or "") not in self.wrong
        )
        if harmed_ms is None or harmed_ms < self.begun_ms or not of_its_own:
            return earlier
        return attrs.evolve(cause, before=(_line_of(earlier, "earlier"), *cause.before))

    def _of_span(self, lost: bool) -> FirstCause | None:
        if self.failure is None and lost:
            self.failure = self.attempt
        if self.cause is None and self.failure is not None:
            self.trouble(self.failure.at_ms, self.failure)
        return self.cause

    @staticmethod
    def _just_before(line: Line, at_ms: int) -> bool:
        return at_ms - BEFORE_MS <= line.at_ms <= at_ms


def _line_of(cause: FirstCause, event: str = "Released") -> Line:
    return Line(at_ms=cause.at_ms, place=cause.place or "", event=event, text=cause.text)
