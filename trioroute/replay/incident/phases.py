"""What makes the phases of one router: its replicas, its room, and who still runs where."""

import attrs

from trioroute.projections import State
from trioroute.replay.incident.course import (
    EJECT,
    OUTAGE,
    OVERLOAD,
    STILL,
    Course,
    below,
    outage_of,
    phase_of,
    stalled_in,
    still_words,
)
from trioroute.replay.incident.evidence import cause_of, loads_of
from trioroute.replay.incident.requests import Requests
from trioroute.replay.incident.room import REFUSED, Room
from trioroute.replay.incident.stall import Stall
from trioroute.replay.incident.story import Story
from trioroute.replay.incident.told import Phase
from trioroute.replay.incident.traffic import Traffic
from trioroute.replay.told import Line


@attrs.define
class Phases:
    """``state`` is the router's own, which folds it."""

    state: State
    story: Story
    traffic: Traffic
    course: Course
    requests: Requests
    room: Room = attrs.field(factory=Room)
    stall: Stall = attrs.field(factory=Stall)

    def begin(self, at_ms: int) -> None:
        self.look(at_ms, "")
        self.course.begin(*self._phase(at_ms))

    def look(self, at_ms: int, place: str) -> None:
        """After a round of scrapes."""
        self.room.look(self.state, self.traffic.in_flight, at_ms, place)

    def settle(self, at_ms: int) -> None:
        """What time alone ended before ``at_ms``."""
        for ended_ms in self.room.settle(at_ms):
            if not self.room.full_until_ms:
                self.had_room()
            self.turn(ended_ms)

    def refused(self, at_ms: int, place: str, code: str, model: str | None) -> None:
        if code not in REFUSED:
            return
        anew = not self.room.full_until_ms
        self.room.refuse(at_ms, code, model)
        in_flight = self.traffic.in_flight
        loads = loads_of(self.state, in_flight, at_ms, place, model) if anew else ()
        name, why = self._phase(at_ms)
        if name == OUTAGE:
            self.turn(at_ms)
            if anew:
                self._short(at_ms, place, f"outage: {self.course.why}", loads)
            return
        self.room.then = [(at_ms, name, why)]
        said = self.room.refusals()
        if self.course.turn(at_ms, OVERLOAD, said) and anew:
            self._short(at_ms, place, f"overload: {said}", loads)

    def fell_back(self, number: int, earlier: tuple[int, ...]) -> None:
        """A request was sent to a replica that is out of traffic, for want of another one."""
        if self.course.name == OUTAGE:
            self.requests.anyway.send(number, self.course.since_ms, earlier)

    def finish(self, to_ms: int) -> tuple[Phase, ...]:
        self.had_room(to_ms)
        phases = self.requests.anyway.told(self.course.finish(to_ms), OUTAGE)
        return tuple(self.requests.failing.over(phases))

    def restarted(self) -> None:
        """Nobody waits for room, nor for the log, behind a router that has just started."""
        self.had_room()
        self.room.full_until_ms = self.stall.until_ms = 0

    def had_room(self, until_ms: int | None = None) -> None:
        """The last refusal was the end of an overload, which lasts a millisecond at least, or to
        ``until_ms``: tell what it was since then."""
        rest, self.room.then = self.room.then, []
        for at_ms, name, why in rest:
            after_ms = self.course.since_ms + (self.course.name == OVERLOAD)
            at_ms = max(at_ms, after_ms)
            self.course.turn(at_ms if until_ms is None else min(at_ms, until_ms), name, why)

    def stood_still(self, replica: str, since_ms: int) -> None:
        """It is found now that an engine stopped generating then."""
        if replica in stalled_in(self.state):
            self._was(since_ms, STILL, still_words([replica]))

    def in_trouble(self, replica: str, since_ms: int) -> None:
        """It is ejected now for what is held against it since then."""
        self._was(since_ms, EJECT, f"{replica} in trouble, then ejected")

    def _was(self, since_ms: int, name: str, why: str) -> None:
        self.course.was(since_ms, name, why)
        self.room.was(since_ms, name, why, below(name))

    def turn(self, at_ms: int) -> None:
        name, why = self._phase(at_ms)
        if self.room.then and name != OUTAGE:
            self.room.goes_on(at_ms, name, why)
            return
        self.had_room()
        waits = name == OVERLOAD
        if waits:
            at_ms = self.room.since_ms
        if self.course.turn(at_ms, name, why) and waits:
            evidence = self.room.queues
            self._short(at_ms, evidence[0].place, f"overload: {why}", evidence, waits=True)

    def _phase(self, at_ms: int) -> tuple[str, str]:
        """What it is but for refusals."""
        nobody = outage_of(self.state)
        if nobody is not None:
            return OUTAGE, nobody
        why = self.room.queued(at_ms)
        if why is not None:
            return OVERLOAD, why
        return phase_of(self.state, (name for name, left in self.requests.struck.items() if left))

    def _short(
        self,
        at_ms: int,
        place: str,
        text: str,
        evidence: tuple[Line, ...],
        *,
        waits: bool = False,
    ) -> None:
        """``waits``: what was short is not one model's."""
        self.story.say(at_ms, place, OVERLOAD, text)
        cause = cause_of(OVERLOAD, at_ms, place, text, evidence)
        models = None if self.room.model is None or waits else frozenset({self.room.model})
        self.story.causes.shortage(at_ms, cause, models)
