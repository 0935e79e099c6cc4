"""One router's rows of the span, each put where it belongs."""

from collections.abc import Callable
from typing import Any

import attrs

from eventlog.record import Record
from trioroute import events as e
from trioroute.projections import State, apply
from trioroute.replay.clock import local_iso, span
from trioroute.replay.incident.course import NORMAL, Course, overloaded, phase_of
from trioroute.replay.incident.evidence import Evidence
from trioroute.replay.incident.rules import usual
from trioroute.replay.incident.story import Story
from trioroute.replay.incident.told import Phase
from trioroute.replay.incident.traffic import NOT_FAILED, Traffic
from trioroute.replay.read import decision_name
from trioroute.replay.words import end_words, health_words, plural

OVERLOAD_LASTS_MS = 10_000
"""Overload lasts this long after a refusal for want of room, and queues must last it to be one: a
single scrape that finds a queue everywhere is not."""

FULL = ("overloaded", "no_healthy_instances")

_FLEET = (e.ReplicaJoined, e.ReplicaLeft, e.Draining)
_HEALTH = (e.Live, e.Probing, e.Ejected, e.ScrapeFailed, e.Scraped)
_STATE = (*_FLEET, *_HEALTH, e.Started, e.Configured, e.Gap)


@attrs.define
class Router:
    """``state`` is folded of all but the requests and pins of the span: fleet, health, settings.

    ``struck`` holds, by ejected replica, the dispatches that ran there when it was ejected.
    """

    stream: str
    state: State
    story: Story
    traffic: Traffic
    course: Course
    evidence: Evidence = attrs.field(factory=Evidence)
    struck: dict[str, set[int]] = attrs.field(factory=dict)
    lanes: dict[str, tuple[str, int]] = attrs.field(factory=dict)
    requests: dict[int, str] = attrs.field(factory=dict)
    full_until_ms: int = 0
    refused: str = ""
    waits: str | None = None
    waits_since_ms: int = 0
    waits_until_ms: int = 0
    before: e.Event | None = None
    last_ms: int = 0

    def place(self, record: Record) -> str:
        return decision_name(self.stream, record.version)

    def begin(self) -> None:
        """From the state just before the span."""
        at_ms = self.traffic.from_ms
        for number, flight in self.state.load.flights.items():
            self.traffic.begin((self.stream, number), flight.replica, (flight.model, None))
            self.requests[number] = flight.request_id
        self._standings(at_ms)
        self._look_at_queues(at_ms)
        self.course.name, self.course.why = self._phase(at_ms)
        self.last_ms = self.state.at_ms

    def under_way(self) -> list[str]:
        """What was wrong with its replicas when the span began."""
        found = []
        for name in self.state.fleet.replicas:
            health, standing = self.state.health[name], self.state.standing(name)
            if standing in ("EJECTED", "PROBING", "DRAINING"):
                cause = f" ({health.eject_cause})" if standing == "EJECTED" else ""
                found.append(f"{name} is {standing}{cause} since {local_iso(health.since_ms)}")
        return found

    def take(self, record: Record, event: e.Event) -> None:
        at_ms = record.at_ms
        self._settle(self.last_ms if isinstance(event, e.Started) else at_ms)
        if not usual(event):
            name = getattr(event, "replica", None)
            known = isinstance(name, str) and name in self.state.fleet.replicas
            was = self.state.standing(name) if known and isinstance(name, str) else ""
            self.story.rules.take(self.place(record), event, self.state, was, self.before)
        look = _LOOKS.get(type(event))
        if look is not None:
            look(self, record, event)
        if isinstance(event, _STATE):
            apply(self.state, record.version, at_ms, event)
            self._standings(at_ms)
            if isinstance(event, e.Scraped):
                self._look_at_queues(at_ms)
            self._turn(at_ms, self.place(record))
        self.before, self.last_ms = event, at_ms

    # What the phases are made of

    def _settle(self, at_ms: int) -> None:
        """What time alone ended before ``at_ms``."""
        if self.full_until_ms and self.full_until_ms <= at_ms:
            ended, self.full_until_ms = self.full_until_ms, 0
            self._turn(ended, "")

        if self.waits is not None and self.waits_until_ms <= at_ms:
            self.waits = None
            self._turn(self.waits_until_ms, "")

    def _look_at_queues(self, at_ms: int) -> None:
        why = overloaded(self.state)
        if why is not None:
            if self.waits is None:
                self.waits, self.waits_since_ms = why, at_ms
            self.waits_until_ms = at_ms + OVERLOAD_LASTS_MS

    def _phase(self, at_ms: int) -> tuple[str, str]:
        if self.full_until_ms > at_ms:
            return "overload", f"requests were refused: {self.refused}"
        if self.waits is not None and at_ms - self.waits_since_ms >= OVERLOAD_LASTS_MS:
            return "overload", self.waits
        return phase_of(self.state, (name for name, left in self.struck.items() if left))

    def _turn(self, at_ms: int, place: str) -> None:
        name, why = self._phase(at_ms)
        if name == "overload" and why == self.waits:
            at_ms = self.waits_since_ms
        if self.course.turn(at_ms, name, why) and name == "overload":
            self.story.say(at_ms, place, "overload", f"overload: {why}")
            self.story.blame(at_ms, place, f"overload: {why}", ())

    def _standings(self, at_ms: int) -> None:
        for name in [name for name in self.lanes if name not in self.state.fleet.replicas]:
            state, since_ms = self.lanes.pop(name)
            self.story.lane(name, state, since_ms, at_ms)
        for name in self.state.fleet.replicas:
            standing = self.state.standing(name)
            state, since_ms = self.lanes.get(name, ("", at_ms))
            if standing != state:
                if state:
                    self.story.lane(name, state, since_ms, at_ms)
                self.lanes[name] = (standing, at_ms)

    def finish(self, to_ms: int) -> tuple[Phase, ...]:
        self._settle(to_ms)
        for name, (state, since_ms) in self.lanes.items():
            self.story.lane(name, state, since_ms, to_ms)
        if self.course.cut:
            self.story.note("the phases are too many: the last one told stands for the rest")
        return self.course.finish(to_ms)

    # The rows

    def _dispatched(self, record: Record, event: e.Dispatched) -> None:
        self.traffic.dispatch(self.stream, record.version, record.at_ms, event)
        self.requests[record.version] = event.request_id

    def _landed(self, record: Record, number: int) -> None:
        self.requests.pop(number, None)
        for name, left in self.struck.items():
            if number in left:
                left.discard(number)
                if not left:
                    del self.struck[name]
                    self._turn(record.at_ms, self.place(record))
                return

    def _failed(self, record: Record, event: e.Failed) -> None:
        self._ended(record, event)
        request_id = self.requests.get(event.dispatch, "")
        self.traffic.fail(self.stream, record.at_ms, event, request_id)
        self._landed(record, event.dispatch)

    def _released(self, record: Record, event: e.Released) -> None:
        self._ended(record, event)
        normal = self.course.name == NORMAL
        if event.outcome not in NOT_FAILED:
            words = end_words(event.outcome, event.cause, event.blame, event.status)
            name = decision_name(self.stream, event.dispatch)
            self.story.fail(record.at_ms, self.place(record), f"{name} ended as {words}")
        self.traffic.release(self.stream, record.at_ms, event, normal)
        self._landed(record, event.dispatch)

    def _ended(self, record: Record, event: e.Failed | e.Released) -> None:
        flight = self.traffic.flights.get((self.stream, event.dispatch))
        if flight is not None and (event.blame == "replica" or self.evidence.against):
            self.evidence.ended(record.at_ms, self.place(record), flight[0], event)

    def _orphaned(self, record: Record, event: e.Orphaned) -> None:
        self.traffic.orphan(self.stream, record.at_ms, event)
        lost = plural(len(event.dispatches), "request")
        self._say(record, f"{lost} had no end: the router died under them")
        for number in event.dispatches:
            self._landed(record, number)

    def _refused(self, record: Record, event: e.Refused) -> None:
        self.traffic.refuse(record.at_ms, event)
        if event.code in FULL:
            self.full_until_ms = record.at_ms + OVERLOAD_LASTS_MS
            self.refused = event.code
            self._turn(record.at_ms, self.place(record))

    def _spilled(self, record: Record, event: e.Spilled) -> None:
        self.traffic.spill(record.at_ms, event)

    def _rebound(self, record: Record, event: e.Rebound) -> None:
        self.traffic.rebind(record.at_ms, event)

    def _scraped(self, record: Record, event: e.Scraped) -> None:
        self.evidence.scraped(event)

    def _scrape_failed(self, record: Record, event: e.ScrapeFailed) -> None:
        self.evidence.scrape_failed(record.at_ms, self.place(record), event)
        self._health(record, event)

    def _health(self, record: Record, event: e.Event) -> None:
        name = getattr(event, "replica", "")
        self._say(record, f"{name}: {health_words(event, record.at_ms)}")

    def _leaves(self, record: Record, event: e.Draining | e.ReplicaLeft) -> None:
        self._health(record, event)
        if isinstance(event, e.ReplicaLeft) or event.on:
            self._blame(record, f"{event.replica} {health_words(event, record.at_ms)}", ())

    def _ejected(self, record: Record, event: e.Ejected) -> None:
        self._health(record, event)
        evidence = self.evidence.of(event.replica)
        text = f"{event.replica} {health_words(event, record.at_ms)}"
        self.story.blame(record.at_ms, self.place(record), text, evidence)
        begun_ms = evidence[0].at_ms if evidence else record.at_ms
        if self.course.name == NORMAL:
            self.course.turn(begun_ms, "eject", f"{event.replica} in trouble, then ejected")
        flights = self.traffic.flights.items()
        running = {at[1] for at, found in flights if found[0] == event.replica}
        self.struck[event.replica] = running
        if not running:
            del self.struck[event.replica]

    def _started(self, record: Record, event: e.Started) -> None:
        if record.version == 1:
            self._say(record, f"the router started, release {event.release}")
            return
        died = not isinstance(self.before, e.Stopped) and self.before is not None
        text = f"the router {'died and ' if died else ''}started again, release {event.release}"
        if self.last_ms:
            text += f", {span(max(0, record.at_ms - self.last_ms))} after its last row"
        self._say(record, text)
        self._blame(record, text, ())
        self.full_until_ms = 0
        self.course.turn(max(self.last_ms, self.traffic.from_ms), "restart", text)

    def _stopped(self, record: Record, event: e.Stopped) -> None:
        self._say(record, f"the router stopped: {event.cause}")

    def _configured(self, record: Record, event: e.Configured) -> None:
        if event.by != "start":
            why = f": {event.why}" if event.why else ""
            self._say(record, f"other settings in force, by {event.by}{why}")

    def _gap(self, record: Record, event: e.Gap) -> None:
        length = span(max(0, event.to_ms - event.from_ms))
        text = f"the log could not be written for {length}: {plural(event.lost, 'event')} lost"
        self._say(record, text)
        self._blame(record, text, ())
        self.story.note(f"{text}, at {self.place(record)}: what they told is not counted")

    def _say(self, record: Record, text: str) -> None:
        self.story.say(record.at_ms, self.place(record), record.kind, text)

    def _blame(self, record: Record, text: str, evidence: tuple[()]) -> None:
        self.story.blame(record.at_ms, self.place(record), text, evidence)


_LOOKS: dict[type, Callable[[Router, Record, Any], None]] = {
    e.Dispatched: Router._dispatched,
    e.Failed: Router._failed,
    e.Released: Router._released,
    e.Orphaned: Router._orphaned,
    e.Refused: Router._refused,
    e.Spilled: Router._spilled,
    e.Rebound: Router._rebound,
    e.Scraped: Router._scraped,
    e.ScrapeFailed: Router._scrape_failed,
    e.ReplicaJoined: Router._health,
    e.ReplicaLeft: Router._leaves,
    e.Draining: Router._leaves,
    e.Live: Router._health,
    e.Probing: Router._health,
    e.Ejected: Router._ejected,
    e.Started: Router._started,
    e.Stopped: Router._stopped,
    e.Configured: Router._configured,
    e.Gap: Router._gap,
}
