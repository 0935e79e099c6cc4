"""What is told in lines: the timeline, the causes, the states as lanes, the rules."""

import attrs

from trioroute.replay.incident.causes import Causes
from trioroute.replay.incident.rules import Rules
from trioroute.replay.incident.told import FirstCause, Lane
from trioroute.replay.told import Line

LINES_MAX = 1000
NOTES_MAX = 50


@attrs.define
class Story:
    """``down``: the first time that a router which had stopped in order left nobody listening, for
    so long that clients will have met it. Nobody of them is in the log, so it is the first cause
    only where there is no other."""

    causes: Causes = attrs.field(factory=Causes)
    lines: list[Line] = attrs.field(factory=list)
    left_out: int = 0
    lanes: list[Lane] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    rules: Rules = attrs.field(factory=Rules)
    down: FirstCause | None = None

    def say(self, at_ms: int, place: str, event: str, text: str) -> Line:
        """A line of the timeline; the same one again in a row is counted and not repeated."""
        line = Line(at_ms=at_ms, place=place, event=event, text=text)
        last = self.lines[-1] if self.lines else None
        if last is not None and last.text == text:
            self.lines[-1] = attrs.evolve(last, times=last.times + 1)
        elif len(self.lines) < LINES_MAX:
            self.lines.append(line)
        else:
            self.left_out += 1
        return line

    def note(self, text: str) -> None:
        if len(self.notes) < NOTES_MAX:
            self.notes.append(text)
