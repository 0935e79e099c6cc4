"""The requests of one router as they come and end, and those that run on an ejected replica."""

import attrs

from eventlog.record import Record
from trioroute import events as e
from trioroute.events.codec import flat_fields
from trioroute.projections import State
from trioroute.replay.incident.evidence import Evidence
from trioroute.replay.incident.story import Story
from trioroute.replay.incident.traffic import NOT_FAILED, Traffic
from trioroute.replay.read import decision_name
from trioroute.replay.words import end_words


@attrs.define
class Requests:
    """``struck`` holds, by ejected replica, the dispatches that ran there when it was ejected;
    ``ids`` by dispatch the id of its request."""

    stream: str
    story: Story
    traffic: Traffic
    evidence: Evidence = attrs.field(factory=Evidence)
    ids: dict[int, str] = attrs.field(factory=dict)
    struck: dict[str, set[int]] = attrs.field(factory=dict)

    def begin(self, state: State) -> None:
        """Those that run when the span begins."""
        for number, flight in state.load.flights.items():
            self.traffic.begin((self.stream, number), flight.replica, (flight.model, None))
            self.ids[number] = flight.request_id

    def dispatched(self, number: int, at_ms: int, event: e.Dispatched) -> None:
        self.traffic.dispatch(self.stream, number, at_ms, event)
        self.ids[number] = event.request_id

    def failed(self, at_ms: int, place: str, event: e.Failed) -> bool:
        """An attempt ended; whether it was the last one that a struck replica still had."""
        self._ended(at_ms, place, event)
        words = end_words("failed", event.cause, event.blame, event.status)
        name = decision_name(self.stream, event.dispatch)
        self.story.causes.try_failed(at_ms, place, f"{name} {words}, and nobody else took it")
        request_id = self.ids.get(event.dispatch, "")
        self.traffic.fail(self.stream, at_ms, event, request_id)
        return self.landed(event.dispatch)

    def released(self, at_ms: int, place: str, event: e.Released, *, normal: bool) -> bool:
        """As ``failed``; ``normal``: in a normal phase, whose first bytes tell what is usual."""
        self._ended(at_ms, place, event)
        if event.outcome not in NOT_FAILED:
            words = end_words(event.outcome, event.cause, event.blame, event.status)
            name = decision_name(self.stream, event.dispatch)
            self.story.causes.fail(at_ms, place, f"{name} ended as {words}")
        self.traffic.release(self.stream, at_ms, event, normal)
        return self.landed(event.dispatch)

    def usual(self, record: Record, *, normal: bool) -> bool:
        """Count a first dispatch, or a good answer while nothing speaks against any replica, from
        its bare fields; False: it is none, look at its event. Most rows of a log are such rows."""
        if record.kind != "Dispatched" and record.kind != "Released":
            return False
        fields = flat_fields(record.kind, record.schema, record.body)
        if fields is None:
            return False
        if record.kind == "Released":
            if fields["outcome"] != "ok" or fields["blame"] != "none" or fields["status"] != 200:
                return False
            number = fields["dispatch"]
            if self.struck or self._clears(number):
                return False
            self.traffic.answered((self.stream, number), fields["ttfb_ms"], normal)
            self.ids.pop(number, None)
            return True
        if fields["attempt"] != 1 or fields["reason"] == "fallback":
            return False
        who = (fields["model"], fields.get("key"))
        place = (self.stream, record.version)
        _, group = self.traffic.sent(place, record.at_ms, fields["replica"], who)
        group.requests += 1
        self.ids[record.version] = fields["request_id"]
        return True

    def _clears(self, number: int) -> bool:
        """Whether a good end takes back what spoke against its replica."""
        if not self.evidence.against:
            return False
        flight = self.traffic.flights.get((self.stream, number))
        return flight is not None and bool(self.evidence.requests_against(flight[0]))

    def _ended(self, at_ms: int, place: str, event: e.Failed | e.Released) -> None:
        flight = self.traffic.flights.get((self.stream, event.dispatch))
        if flight is not None and (event.blame == "replica" or self.evidence.against):
            self.evidence.ended(at_ms, place, flight[0], event)

    def landed(self, number: int) -> bool:
        self.ids.pop(number, None)
        for name, left in self.struck.items():
            if number in left:
                left.discard(number)
                if not left:
                    del self.struck[name]
                return not left
        return False

    def strike(self, replica: str) -> None:
        """It was ejected: what runs there is struck."""
        flights = self.traffic.flights.items()
        running = {at[1] for at, found in flights if found[0] == replica}
        self.struck.pop(replica, None)
        if running:
            self.struck[replica] = running
