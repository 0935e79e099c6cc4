"""One router's rows of the span, each put where it belongs."""

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from eventlog.record import Record
from trioroute import events as e
from trioroute.projections import Stalls, State, apply
from trioroute.replay.incident import down
from trioroute.replay.incident.course import (
    STALLED,
    Course,
    asleep_in,
    models_of,
    standing_of,
)
from trioroute.replay.incident.evidence import cause_of
from trioroute.replay.incident.felt import Trouble
from trioroute.replay.incident.frozen import stall_trouble
from trioroute.replay.incident.lanes import Lanes
from trioroute.replay.incident.phases import Phases
from trioroute.replay.incident.requests import Requests
from trioroute.replay.incident.rules import usual
from trioroute.replay.incident.running import Running
from trioroute.replay.incident.stall import WHY
from trioroute.replay.incident.standstill import Standstills
from trioroute.replay.incident.story import Story
from trioroute.replay.incident.told import Phase
from trioroute.replay.incident.traffic import Traffic
from trioroute.replay.plain import Ended, Run, Sent
from trioroute.replay.read import decision_name
from trioroute.replay.told import Line
from trioroute.replay.words import gap_words, health_words
from trioroute.settings.changed import configured_words

_HEALTH = (e.Live, e.Probing, e.Ejected, e.ScrapeFailed, e.Scraped, e.Draining)
_STATE = frozenset((*_HEALTH, e.ReplicaJoined, e.ReplicaLeft, e.Started, e.Configured, e.Gap))
_USUAL = e.Refused(request_id="", code="not_found")  # says nothing of what comes after it


@attrs.define
class Router:
    """``state`` is folded of all but the requests and pins of the span: fleet, health, settings.

    ``run`` is the row in which the router started last within the span, 0 if it did not.
    """

    stream: str
    state: State
    story: Story
    traffic: Traffic
    course: Course
    requests: Requests
    lanes: Lanes = attrs.field(factory=Lanes)
    stalls: Stalls = attrs.field(factory=Stalls)
    phases: Phases = attrs.field(init=False)
    standstills: Standstills = attrs.field(init=False)
    run: int = 0
    release: str | None = None
    before: e.Event | None = None
    last_ms: int = 0
    silent_ms: int = 0

    def __attrs_post_init__(self) -> None:
        self.phases = Phases(self.state, self.story, self.traffic, self.course, self.requests)
        of = (self.stream, self.state, self.story, self.course)
        self.standstills = Standstills(*of, self.traffic.flights[of[0]], self.traffic.delays)

    def place(self, record: Record) -> str:
        return decision_name(self.stream, record.version)

    def begin(self, running: Iterable[Running]) -> None:
        """From the state just before the span, and the requests that run then."""
        self.requests.begin(running)
        self.lanes.look(self.state, self.traffic.from_ms)
        self.stalls.look(self.state)
        self.phases.begin(self.traffic.from_ms)
        self.last_ms = self.state.at_ms

    def take_run(self, run: Run) -> None:
        """As ``take``, of each of many rows by which at most the rules of pins acted."""
        for fate, pins in run.pins.items():
            self.story.rules.pins(self.stream, fate, pins)
            count = {"Spilled": self.traffic.spill, "Rebound": self.traffic.rebind}.get(fate[0])
            if count is not None:
                count(fate[2], run.from_ms, run.to_ms, pins.times)
        self.standstills.look(run.first, self.last_ms, run.from_ms)
        long = self.standstills.too_long(run.from_ms, run.to_ms)
        if long or self.phases.room.due(run.to_ms) or not self.requests.moves(run):
            for row in run.moves():
                self._move(row, run.first if long else 0)
        self.phases.settle(run.to_ms)
        self.before, self.last_ms, self.state.position = _USUAL, run.to_ms, run.last

    def _move(self, row: Sent | Ended, first: int) -> None:
        if first:
            self.standstills.look(first, self.last_ms, row[1])
            self.last_ms = row[1]
        if self.phases.room.due(row[1]):
            self.phases.settle(row[1])
        if self.requests.move(row):
            self.phases.turn(row[1])

    def take(self, record: Record, event: e.Event) -> None:
        at_ms = record.at_ms
        now_ms = self.last_ms if isinstance(event, e.Started | e.Gap) else at_ms
        self.standstills.look(record.version, self.last_ms, now_ms)
        self.phases.settle(now_ms)
        if not usual(event):
            name = event.replica if isinstance(event, e.Ejected | e.Live) else ""
            was = standing_of(self.state, name)
            self.story.rules.take(self.place(record), event, was, self.before)
        look = _LOOKS.get(type(event))
        if look is not None:
            look(self, record, event)
        if type(event) in _STATE:
            asleep = asleep_in(self.state) if isinstance(event, e.Scraped) else ()
            apply(self.state, record.version, at_ms, event)
            self.lanes.look(self.state, at_ms)
            self._stalled(record)
            if isinstance(event, e.Scraped):
                self._slept(record, asleep)
                self.phases.look(at_ms, self.place(record))
            self.phases.turn(at_ms)
        self.before, self.last_ms = event, at_ms

    def finish(self, to_ms: int) -> tuple[Phase, ...]:
        self.phases.settle(to_ms)
        self.story.lanes += self.lanes.finish(to_ms)
        if self.course.cut:
            self.story.note("the phases are too many: the last one told stands for the rest")
        return self.phases.finish(to_ms)

    def _dispatched(self, record: Record, event: e.Dispatched) -> None:
        self.requests.dispatched(record, event)
        if event.reason == "fallback":
            self.phases.fell_back(record.version, event.earlier)

    def _failed(self, record: Record, event: e.Failed) -> None:
        if self.requests.failed(record.at_ms, self.place(record), event):
            self.phases.turn(record.at_ms)

    def _released(self, record: Record, event: e.Released) -> None:
        if self.requests.released(record.at_ms, self.place(record), event):
            self.phases.turn(record.at_ms)

    def _orphaned(self, record: Record, event: e.Orphaned) -> None:
        self.traffic.orphan(self.stream, record.at_ms, event, self.silent_ms)
        line = self._say(record, down.orphaned_words(event, self.silent_ms))
        self.story.causes.support(decision_name(self.stream, self.run), line)
        freed = [self.requests.landed(number) for number in event.dispatches]
        if any(freed):
            self.phases.turn(record.at_ms)

    def _refused(self, record: Record, event: e.Refused) -> None:
        self.traffic.refuse(record.at_ms, event)
        self.phases.refused(record.at_ms, self.place(record), event.code, event.model)
        since_ms = self.phases.stall.since(event, record.at_ms, self.state.settings)
        if since_ms is not None:
            self._log_trouble(record, since_ms, record.at_ms, WHY)

    def _pin_left(self, record: Record, event: e.Spilled | e.Rebound) -> None:
        count = self.traffic.spill if isinstance(event, e.Spilled) else self.traffic.rebind
        count(event.cause, record.at_ms, record.at_ms, (record.at_ms,))

    def _scrape_failed(self, record: Record, event: e.ScrapeFailed) -> None:
        self.requests.evidence.scrape_failed(record.at_ms, self.place(record), event)
        self._health(record, event)

    def _health(self, record: Record, event: e.Event) -> Line:
        name = getattr(event, "replica", "")
        return self._say(record, f"{name}: {health_words(event, record.at_ms, self.before)}")

    def _returns(self, record: Record, event: e.Live | e.Probing) -> None:
        self._health(record, event)
        self.requests.evidence.forget(event.replica)  # the next eject has evidence of its own
        self.story.causes.back(event.replica, record.at_ms)

    def _joined(self, record: Record, event: e.ReplicaJoined) -> None:
        line = self._health(record, event)
        if event.by != "start" or self.run > 1:
            self.story.causes.change(line)
        self.story.causes.back(event.replica, record.at_ms)

    def _leaves(self, record: Record, event: e.Draining | e.ReplicaLeft) -> None:
        line = self._health(record, event)
        on = isinstance(event, e.ReplicaLeft) or event.on
        was = self.story.causes.away.get(event.replica)  # drained, then gone: one change
        if not on:
            self.story.causes.back(event.replica, record.at_ms)
        name = event.replica if on and was is None else None
        self.story.causes.change(line, name, models_of(self.state, event.replica))

    def _slept(self, record: Record, before: tuple[str, ...]) -> None:
        now = asleep_in(self.state)
        for name in now:
            if name not in before:
                line = self._say(record, f"{name}: its engine says that it was put to sleep")
                self.story.causes.change(line, name, models_of(self.state, name))
        for name in before:
            if name not in now:
                self._say(record, f"{name}: its engine is awake again")
                self.story.causes.back(name, record.at_ms)

    def _stalled(self, record: Record) -> None:
        """Engines that stopped generating, or went on: no event says so, the scrapes do."""
        for stall in self.stalls.look(self.state):
            line = self._say(record, f"{stall.replica}: {stall.words()}")
            if not stall.over:
                self.phases.stood_still(stall.replica, stall.since_ms)
            if not stall.over and standing_of(self.state, stall.replica) != "EJECTED":
                flights = self.traffic.flights[self.stream]
                models = models_of(self.state, stall.replica)
                trouble = stall_trouble(stall, flights, self.stream, line.place, models)
                self.story.causes.trouble(trouble)

    def _ejected(self, record: Record, event: e.Ejected) -> None:
        line = self._health(record, event)
        evidence = self.requests.evidence.of(event.replica)
        begun_ms = evidence[0].at_ms if evidence else record.at_ms
        text = f"{event.replica} {health_words(event, record.at_ms, self.before)}"
        models = models_of(self.state, event.replica)
        if event.by is not None:
            self.story.causes.change(line, event.replica, models)
        elif standing_of(self.state, event.replica) not in ("DRAINING", "JOINING"):
            cause = cause_of("eject", record.at_ms, line.place, text, evidence)
            self.story.causes.trouble(Trouble(begun_ms, cause, event.replica, models))
            self.story.causes.led_to(event.replica, line)
            self.phases.in_trouble(event.replica, begun_ms)
        self.requests.strike(event.replica)

    def _started(self, record: Record, event: e.Started) -> None:
        self.run, self.release = record.version, event.release
        if record.version == 1:
            self._say(record, f"the router started, release {event.release}")
            return
        died = self.before is not None and not down.ended_in_order(self.before)
        text = down.started_words(event, record.at_ms, self.last_ms, died=died)
        line = self._say(record, text)
        if died:
            self.story.causes.trouble(down.death(self.last_ms or record.at_ms, line.place, text))
        else:
            self.story.causes.change(line)
            if record.at_ms - self.last_ms >= down.DOWN_MS and self.story.down is None:
                self.story.down = down.down_cause(self.last_ms, line)
        self.phases.restarted()
        self.silent_ms = max(self.last_ms, self.traffic.from_ms)
        self.lanes.down(self.silent_ms, record.at_ms)
        why = down.silence_words(self.silent_ms, record.at_ms, died=died)
        self.course.turn(self.silent_ms, "restart", f"{text}; {why}")

    def _stopped(self, record: Record, event: e.Stopped) -> None:
        self.story.causes.change(self._say(record, f"the router stopped in order: {event.cause}"))

    def _configured(self, record: Record, event: e.Configured) -> None:
        text = configured_words(self.state.settings, event, again=self.run > 1)
        if text is not None:
            self.story.causes.change(self._say(record, text))

    def _gap(self, record: Record, event: e.Gap) -> None:
        text = gap_words(event)
        self._log_trouble(record, event.from_ms or record.at_ms, event.to_ms, text)
        if event.lost:
            self.story.note(f"{text}, at {self.place(record)}: what they told is not counted")

    def _say(self, record: Record, text: str) -> Line:
        return self.story.say(record.at_ms, self.place(record), record.kind, text)

    def _log_trouble(self, record: Record, from_ms: int, to_ms: int, text: str) -> None:
        self._say(record, text)
        self.course.cover(from_ms, to_ms, STALLED, text)
        cause = cause_of("log", record.at_ms, self.place(record), text)
        self.story.causes.trouble(Trouble(from_ms, cause))


_LOOKS: dict[type, Callable[[Router, Record, Any], object]] = {
    e.Dispatched: Router._dispatched,
    e.Failed: Router._failed,
    e.Released: Router._released,
    e.Orphaned: Router._orphaned,
    e.Refused: Router._refused,
    e.Spilled: Router._pin_left,
    e.Rebound: Router._pin_left,
    e.Scraped: lambda router, _, event: router.requests.evidence.scraped(event),
    e.ScrapeFailed: Router._scrape_failed,
    e.ReplicaJoined: Router._joined,
    e.ReplicaLeft: Router._leaves,
    e.Draining: Router._leaves,
    e.Live: Router._returns,
    e.Probing: Router._returns,
    e.Ejected: Router._ejected,
    e.Started: Router._started,
    e.Stopped: Router._stopped,
    e.Configured: Router._configured,
    e.Gap: Router._gap,
    e.StoodStill: lambda router, record, event: router.standstills.measured(record, event),
}
