"""The requests of one router as they come and end, and those that run on an ejected replica."""

from collections.abc import Iterable

import attrs

from eventlog.record import Record
from trioroute import events as e
from trioroute.replay.end_words import REPLICA, ended_words
from trioroute.replay.incident.anyway import Anyway
from trioroute.replay.incident.evidence import Evidence, cause_of
from trioroute.replay.incident.failing import Failing
from trioroute.replay.incident.felt import Trouble
from trioroute.replay.incident.running import Running
from trioroute.replay.incident.story import Story
from trioroute.replay.incident.traffic import ANSWERED, Traffic
from trioroute.replay.plain import Ended, Flight, Run, Sent
from trioroute.replay.read import decision_name
from trioroute.replay.words import NOT_FAILED, BusySpells


@attrs.define
class Requests:
    """``struck`` holds, by ejected replica, the dispatches that ran there when it was ejected."""

    stream: str
    story: Story
    traffic: Traffic
    evidence: Evidence = attrs.field(factory=Evidence)
    struck: dict[str, set[int]] = attrs.field(factory=dict)
    anyway: Anyway = attrs.field(factory=Anyway)
    busy: BusySpells = attrs.field(factory=BusySpells)
    failing: Failing = attrs.field(factory=Failing)

    def begin(self, running: Iterable[Running]) -> None:
        """Those that run when the span begins."""
        for one in running:
            place = (self.stream, one.number)
            self.traffic.begin(place, one.send, one.request_id, refused=one.refused)
            if self.traffic.delays is not None:
                self.traffic.delays.sent(place, one.waited_ms, one.earlier)

    def dispatched(self, record: Record, event: e.Dispatched) -> None:
        for number in event.earlier:
            self.story.causes.tried_again(decision_name(self.stream, number))
        self.traffic.dispatch(self.stream, record.version, record.at_ms, event)

    def failed(self, at_ms: int, place: str, event: e.Failed) -> bool:
        """An attempt ended; whether it was the last one that a struck replica still had."""
        self._ended(at_ms, place, event)
        name = decision_name(self.stream, event.dispatch)
        did = ended_words(event, self._named(event))
        text = f"{name} failed: {did}, and nobody else took it"
        self.story.causes.try_failed(name, self._trouble(at_ms, place, text, event))
        self.traffic.fail(self.stream, at_ms, event, place)
        self.anyway.end(event.dispatch, well=False)
        return self.landed(event.dispatch)

    def released(self, at_ms: int, place: str, event: e.Released) -> bool:
        """As ``failed``."""
        self._ended(at_ms, place, event)
        if event.outcome not in NOT_FAILED:
            name = decision_name(self.stream, event.dispatch)
            text = f"{name} failed: {ended_words(event, self._named(event))}"
            self.story.causes.fail(self._trouble(at_ms, place, text, event))
            self.failing.take(at_ms, event.outcome, self.traffic.endings["ok"])
        self.traffic.release(self.stream, at_ms, event)
        self.anyway.end(event.dispatch, well=event.outcome in ANSWERED)
        return self.landed(event.dispatch)

    def move(self, row: Sent | Ended) -> bool:
        """As ``dispatched`` or ``released``, of a plain row."""
        if len(row) == 4:
            self.traffic.first((self.stream, row[0]), row[1], row[2], row[3])
            return False
        place = (self.stream, row[2])
        if (flight := self._flight(row[2])) is not None:
            self.evidence.fine(flight[0][0])
        self.traffic.answered(place, row)
        self.anyway.end(row[2], well=True)
        return self.landed(row[2])

    def moves(self, run: Run) -> bool:
        """As ``move``, of many; False: one by one, for what they are may turn a phase."""
        if self.struck or self.anyway.running:
            ended = run.ended.dispatches
            watched = (*self.struck.values(), self.anyway.running.keys())
            if any(not left.isdisjoint(ended) for left in watched):
                return False
        for replica in self.traffic.flow(run, self.evidence.held()):
            self.evidence.fine(replica)
        return True

    def _ended(self, at_ms: int, place: str, event: e.Failed | e.Released) -> None:
        flight = self._flight(event.dispatch)
        if flight is None:
            return
        replica = flight[0][0]
        if event.blame == "replica" or self.evidence.against:
            self.evidence.ended(at_ms, place, replica, event)
        busy = self.busy.begins(replica, at_ms, event)
        if busy is not None:
            self.story.say(at_ms, place, "busy", f"{replica}: {busy}")

    def _flight(self, number: int) -> Flight | None:
        return self.traffic.flights[self.stream].get(number)

    def _trouble(self, at_ms: int, place: str, text: str, event: e.Failed | e.Released) -> Trouble:
        """Of one that failed, where nothing greater is in the log."""
        flight = self._flight(event.dispatch)
        cause = cause_of("failure", at_ms, place, text)
        if flight is None:
            return Trouble(at_ms, cause)
        (replica, (model, _), *_), _ = flight
        models = None if model is None else frozenset({model})
        return Trouble(at_ms, cause, replica, models)

    def _named(self, event: e.Failed | e.Released) -> str:
        flight = self._flight(event.dispatch)
        return REPLICA if flight is None else flight[0][0]

    def landed(self, number: int) -> bool:
        for name, left in self.struck.items():
            if number in left:
                left.discard(number)
                if not left:
                    del self.struck[name]
                return not left
        return False

    def strike(self, replica: str) -> None:
        """It was ejected: what runs there is struck."""
        flights = self.traffic.flights[self.stream].items()
        running = {number for number, (send, _) in flights if send[0] == replica}
        self.struck.pop(replica, None)
        if running:
            self.struck[replica] = running
