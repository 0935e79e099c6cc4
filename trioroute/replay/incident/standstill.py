"""A router that stood still: no row for longer than its scrapes allow, though requests ran.

A stopped process, a paused machine, swap or a starved CPU leave such a hole, and nothing else does:
every scrape of every round is a row or ends as one within ``scrape.timeout``.
"""

from collections.abc import Mapping

import attrs

from eventlog.record import Record
from trioroute.events import StoodStill
from trioroute.projections import State
from trioroute.replay.clock import span
from trioroute.replay.incident.block import clock_time
from trioroute.replay.incident.course import Course
from trioroute.replay.incident.delays import Delays
from trioroute.replay.incident.evidence import cause_of, running_lines
from trioroute.replay.incident.felt import Trouble
from trioroute.replay.incident.story import Story
from trioroute.replay.plain import Flight
from trioroute.replay.read import decision_name
from trioroute.replay.told import Line
from trioroute.replay.words import plural

STANDSTILL = "standstill"

SLACK_MS = 1000
"""What a round of scrapes may be late by itself: its jitter and its gathering are far less."""


@attrs.define
class Standstills:
    """Those of one router; ``flights`` are its requests that run, ``course`` its phases.
    ``told_to_ms`` is when the last one that was told was over."""

    stream: str
    state: State
    story: Story
    course: Course
    flights: Mapping[int, Flight]
    delays: Delays | None = None
    told_to_ms: int = 0

    def too_long(self, from_ms: int, to_ms: int) -> bool:
        """Whether a router that scrapes must write something between the two."""
        scrape = self.state.settings.scrape
        return to_ms - from_ms > scrape.interval_ms + scrape.timeout_ms + SLACK_MS

    def look(self, version: int, from_ms: int, to_ms: int, until_ms: int | None = None) -> None:
        """``version`` is the row that comes next, at ``to_ms``, after one at ``from_ms`` (0: it is
        not known). Where rows are missing between them, they prove nothing. ``until_ms``: the span
        ends before that row."""
        if not (from_ms and self.flights and self.too_long(from_ms, to_ms)):
            return
        if version != self.state.position + 1:
            return
        text, place = self._words(from_ms, to_ms), decision_name(self.stream, version)
        if until_ms is not None:
            text += "; it goes on beyond this span, and whom it delayed is told behind it"
        rows = running_lines(self.flights, self.stream, from_ms, STANDSTILL)
        self._tell(place, from_ms, until_ms or to_ms, text, rows)

    def measured(self, record: Record, event: StoodStill) -> None:
        """What the router tells of itself, also of one that is too short to be proved by a hole."""
        at_ms, place = record.at_ms, decision_name(self.stream, record.version)
        from_ms = at_ms - event.for_ms
        if from_ms < self.told_to_ms:
            return  # the hole has told it
        text = (
            f"the router itself stood still for {span(event.for_ms)}, as it measured: stopped, "
            "paused or swapped out, or too little CPU; who came meanwhile waited longer than the "
            "log tells"
        )
        self._tell(place, from_ms, at_ms, text, ())

    def _tell(
        self, place: str, from_ms: int, to_ms: int, text: str, rows: tuple[Line, ...]
    ) -> None:
        self.told_to_ms = to_ms
        self.story.say(from_ms, place, STANDSTILL, text)
        self.course.cover(from_ms, to_ms, STANDSTILL, text)
        if self.delays is not None:
            self.delays.stood(self.stream, from_ms, to_ms)
        cause = cause_of(STANDSTILL, from_ms, place, text, rows)
        self.story.causes.trouble(Trouble(from_ms, cause))

    def _words(self, from_ms: int, to_ms: int) -> str:
        ran, every = plural(len(self.flights), "request"), self.state.settings.scrape.interval_ms
        return (
            f"the router stood still for {span(to_ms - from_ms)}: no row is between "
            f"{clock_time(from_ms)[11:]} and {clock_time(to_ms)[11:]} though {ran} ran and scrapes "
            f"are due every {span(every)}; who came meanwhile waited longer than the log tells"
        )
