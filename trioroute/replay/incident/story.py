"""What is told in lines: the timeline, the first cause, the states as lanes, the rules."""

import attrs

from trioroute.replay.incident.rules import Rules
from trioroute.replay.incident.told import FirstCause, Lane
from trioroute.replay.told import Line

LINES_MAX = 1000
LANES_MAX = 5000
NOTES_MAX = 50


@attrs.define
class Story:
    from_ms: int
    cause: FirstCause | None = None
    failure: FirstCause | None = None
    lines: list[Line] = attrs.field(factory=list)
    left_out: int = 0
    lanes: list[Lane] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    rules: Rules = attrs.field(factory=Rules)

    def begin(self, at_ms: int, under_way: list[str]) -> None:
        """The span began in trouble: its cause is before it."""
        if under_way:
            text = f"already under way when the span begins: {'; '.join(under_way)}"
            self.cause = FirstCause(text=text, at_ms=at_ms, place=None, evidence=())

    def blame(self, at_ms: int, place: str, text: str, evidence: tuple[Line, ...]) -> None:
        """The first trouble is the first cause; what comes later only follows."""
        if self.cause is None:
            self.cause = FirstCause(text=text, at_ms=at_ms, place=place, evidence=evidence)

    def fail(self, at_ms: int, place: str, text: str) -> None:
        """The first request that failed: the first cause where nothing greater is in the log."""
        if self.failure is None:
            self.failure = FirstCause(text=text, at_ms=at_ms, place=place, evidence=())

    def say(self, at_ms: int, place: str, event: str, text: str) -> None:
        """A line of the timeline; the same one again in a row is counted and not repeated."""
        last = self.lines[-1] if self.lines else None
        if last is not None and last.text == text:
            self.lines[-1] = attrs.evolve(last, times=last.times + 1)
        elif len(self.lines) < LINES_MAX:
            self.lines.append(Line(at_ms=at_ms, place=place, event=event, text=text))
        else:
            self.left_out += 1

    def lane(self, replica: str, state: str, from_ms: int, to_ms: int) -> None:
        if to_ms > from_ms and len(self.lanes) < LANES_MAX:
            self.lanes.append(Lane(replica=replica, state=state, from_ms=from_ms, to_ms=to_ms))

    def note(self, text: str) -> None:
        if len(self.notes) < NOTES_MAX:
            self.notes.append(text)
