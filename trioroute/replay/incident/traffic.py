"""The requests of an incident: how many, who was hit, and when."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import attrs

from trioroute.events import Dispatched, Failed, Orphaned, Refused, Released
from trioroute.replay.client import ORPHANED, failed_words, refused_words, released_words
from trioroute.replay.incident.block import clock_time
from trioroute.replay.incident.delays import Delays
from trioroute.replay.incident.groups import GROUPS_MAX, REST, Group
from trioroute.replay.incident.hurt import SERVICE, Hurt
from trioroute.replay.incident.limbo import Limbo, Lost, Place
from trioroute.replay.incident.slow import Speeds
from trioroute.replay.incident.steps import Steps
from trioroute.replay.incident.told import TimeStep
from trioroute.replay.pace import pace_of
from trioroute.replay.plain import UNKNOWN, Ended, Flight, Run, Send, Who, send_of
from trioroute.replay.words import NOT_FAILED

LOST = "every attempt failed"
"""How a request ended that failed in all its attempts and was not refused."""

ANSWERED = frozenset({"ok", "client_error"})
"""Outcomes with which a client got all that a replica answered."""


@attrs.define
class Traffic(Steps):
    """Counts by step of time and by model and key. ``flights`` are by router and dispatch; those
    ``again`` are second attempts or later. No first byte came later than ``latest_ms``."""

    groups: dict[Who, Group] = attrs.field(factory=dict)
    flights: defaultdict[str, dict[int, Flight]] = attrs.field(factory=lambda: defaultdict(dict))
    again: defaultdict[str, set[int]] = attrs.field(factory=lambda: defaultdict(set))
    limbo: Limbo = attrs.field(factory=Limbo)
    endings: Counter[str] = attrs.field(factory=Counter)
    refusals: Counter[str] = attrs.field(factory=Counter)
    spills: Counter[str] = attrs.field(factory=Counter)
    rebinds: Counter[str] = attrs.field(factory=Counter)
    hurt: Hurt = attrs.field(factory=Hurt)
    delays: Delays | None = None
    latest_ms: int = -1
    speeds: Speeds = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.speeds = Speeds(self.from_ms)

    def group(self, who: Who) -> Group:
        known = self.groups.get(who)
        if known is not None:
            return known
        if len(self.groups) >= GROUPS_MAX:
            who = (REST, REST)
        return self.groups.setdefault(who, Group())

    def begin(self, place: Place, send: Send, request_id: str, *, refused: bool) -> None:
        """A request that runs when the span begins; ``refused``: its client has its answer."""
        self.flights[place[0]][place[1]] = (send, request_id)
        self.in_flight[send[0]] += 1
        if refused:
            self.limbo.answered.add(place)
        else:
            self.group(send[1]).requests += 1

    def sent(self, place: Place, at_ms: int, send: Send, request_id: str) -> tuple[TimeStep, Group]:
        """Count what every dispatch counts for."""
        replica, step, group = send[0], self.enter(at_ms), self.group(send[1])
        self.flights[place[0]][place[1]] = (send, request_id)
        running = self.in_flight[replica] = self.in_flight[replica] + 1
        step.dispatches[replica] = step.dispatches.get(replica, 0) + 1
        if running > step.in_flight.get(replica, 0):
            step.in_flight[replica] = running
        return step, group

    def first(self, place: Place, at_ms: int, send: Send, request_id: str) -> None:
        """Count a request's first dispatch."""
        self.sent(place, at_ms, send, request_id)[1].requests += 1

    def flow(self, run: Run, watched: set[str]) -> set[str]:
        """As ``first`` and ``answered`` of each move, in a quarter of the time, for there are a
        million of them in an hour. Which of ``watched`` gave an answer."""
        flights, begun, ended = self.flights[run.stream], run.begun, run.ended
        for number in self.again[run.stream].intersection(ended.dispatches):
            self._rescued((run.stream, number), flights[number][0][1])
        for code, count in Counter(begun.codes).items():
            self.group(run.sends[code][1]).requests += count
        sends = map(run.sends.__getitem__, begun.codes)
        flights.update(zip(begun.numbers, zip(sends, begun.ids, strict=True), strict=True))
        found = [flights.pop(number, None) for number in ended.dispatches]
        self.count_running(run, found)
        landed = [flight for flight in found if flight is not None]
        if landed:
            self.endings["ok"] += len(landed)
            self.speeds.take(run.stream, zip(found, *ended.columns()[1:], strict=True))
            self.latest_ms = max(self.latest_ms, max(ended.ttfb))
            if self.delays is not None:
                for who in self.delays.late_in(run.stream, found, ended):
                    self.group(who).delayed += 1
        return {send[0] for send, _ in landed} & watched if watched else set()

    def dispatch(self, stream: str, number: int, at_ms: int, event: Dispatched) -> None:
        place = (stream, number)
        send = send_of(event)
        step, group = self.sent(place, at_ms, send, event.request_id)
        if self.delays is not None:
            self.delays.sent(place, event.waited_ms, event.earlier)
        if not self.limbo.tried_again(stream, event.earlier):
            group.requests += 1  # its first attempt, or the first one in the span
        if event.attempt > 1:
            self.again[stream].add(number)
            self.hurt.toll.moved[event.tried[-1]] += 1
        if event.attempt == 2:
            group.retried += 1
            step.retried += 1

    def _rescued(self, place: Place, who: Who) -> None:
        """Its client got an answer; where it is not of the first attempt, trying again helped."""
        if place[1] in self.again[place[0]]:
            self.again[place[0]].discard(place[1])
            self.group(who).rescued += 1

    def _land(self, place: Place, at_ms: int) -> Flight | None:
        found = self.flights[place[0]].pop(place[1], None)
        if found is not None:
            self.enter(at_ms)
            self.in_flight[found[0][0]] -= 1
        return found

    def fail(self, stream: str, at_ms: int, event: Failed, row: str = "") -> None:
        """An attempt: its request fails unless it is dispatched or refused after it."""
        place = (stream, event.dispatch)
        flight = self._land(place, at_ms)
        if flight is None:
            return
        self.again[stream].discard(event.dispatch)
        if self.delays is not None:
            self.delays.forget(place)
        (replica, who, *_), request_id = flight
        lost = Lost(place, who, request_id, at_ms, event.cause, event.blame, replica, row)
        over = self.limbo.fail(lost)
        if over is not None:
            self._lost(over)

    def _lost(self, lost: Lost) -> None:
        got = failed_words(lost.cause, lost.blame)
        self.hurt.fail(lost.at_ms, lost.place, lost.request_id, lost.who, got, lost.replica)
        self._failed(lost.who, lost.at_ms, LOST)

    def _failed(self, who: Who, at_ms: int, outcome: str) -> None:
        self.group(who).failed += 1
        self.step(at_ms).failed += 1
        self.endings[outcome] += 1

    def release(self, stream: str, at_ms: int, event: Released) -> None:
        place = (stream, event.dispatch)
        flight = self._land(place, at_ms)
        if flight is None:
            return
        (replica, who, *_), request_id = flight
        if event.outcome not in ANSWERED:
            self.again[stream].discard(event.dispatch)
        else:
            self._rescued(place, who)
        if event.outcome not in NOT_FAILED:
            got = released_words(event.outcome, event.cause, event.blame, event.status)
            self.hurt.fail(at_ms, place, request_id, who, got, replica)
            self._failed(who, at_ms, event.outcome)
            return
        self.endings[event.outcome] += 1
        pace = pace_of(event)
        if event.outcome == "ok":
            self.latest_ms = max(self.latest_ms, event.ttfb_ms or 0)
            ttfb_ms = UNKNOWN if event.ttfb_ms is None else event.ttfb_ms
            answer = (flight, at_ms, event.dispatch, ttfb_ms, event.duration_ms)
            self.speeds.take(stream, ((*answer, pace),))
        if event.ttfb_ms is not None or event.outcome == "client_gone":
            self._came(place, flight, at_ms, event.ttfb_ms, event.duration_ms, pace)

    def answered(self, place: Place, row: Ended) -> None:
        """A release that is ``ok``."""
        _, at_ms, dispatch, ttfb_ms, took_ms, pace = row
        flight = self._land(place, at_ms)
        if flight is not None:
            who = flight[0][1]
            self.endings["ok"] += 1
            self._rescued(place, who)
            self.latest_ms = max(self.latest_ms, ttfb_ms or 0)
            known = UNKNOWN if ttfb_ms is None else ttfb_ms
            self.speeds.take(place[0], ((flight, at_ms, dispatch, known, took_ms, pace),))
            if ttfb_ms is not None:
                self._came(place, flight, at_ms, ttfb_ms, took_ms, pace)

    def _came(
        self, place: Place, flight: Flight, at_ms: int, ttfb_ms: int | None, took_ms: int, pace: int
    ) -> None:
        """A first byte, or a client that left without one."""
        delays = self.delays
        if delays is not None and delays.ended(place, flight, at_ms, ttfb_ms, took_ms, pace):
            self.group(flight[0][1]).delayed += 1

    def orphan(self, stream: str, at_ms: int, event: Orphaned, since_ms: int = 0) -> None:
        """The router died at ``since_ms`` or later (0: it is not known), and before ``at_ms``: the
        harm is dated from the former, for the latter is the next start."""
        between = f" between {clock_time(since_ms)} and this restart" if since_ms else ""
        cut_ms = since_ms or at_ms
        for number in event.dispatches:
            place = (stream, number)
            flight = self._land(place, at_ms)
            self.again[stream].discard(number)
            known = not event.ends_lost and place not in self.limbo.answered
            if flight is not None and known:
                (replica, who, *_), request_id = flight
                self.hurt.fail(cut_ms, place, request_id, who, ORPHANED + between, replica)
                self._failed(who, cut_ms, "unknown")
            self.limbo.answered.discard(place)

    def refuse(self, at_ms: int, event: Refused) -> None:
        group, step = self.group((event.model, event.key)), self.step(at_ms)
        self.refusals[event.code] += 1
        group.refused += 1
        step.refused += 1
        place = self.limbo.refused(event.request_id)
        if place is None and event.code == "log_stalled":
            place = self._running(event.request_id)
        if place is None:
            group.requests += 1
        if event.code in SERVICE:
            who, got = (event.model, event.key), refused_words(event.code)
            self.hurt.refuse(at_ms, place, event.request_id, who, got)

    def _running(self, request_id: str) -> Place | None:
        """The newest dispatch of a request that has its 503 before its attempt ends."""
        for stream, flights in reversed(self.flights.items()):
            for number, flight in reversed(flights.items()):
                place = (stream, number)
                if flight[1] == request_id and place not in self.limbo.answered:
                    self.limbo.answered.add(place)
                    return place
        return None

    def spill(self, cause: str, from_ms: int, to_ms: int, times: Sequence[int]) -> None:
        """Spills at ``times``, none of them outside ``from_ms`` and ``to_ms``."""
        self.spills[cause] += len(times)
        for step, count in self._by_step(from_ms, to_ms, times):
            step.spills += count

    def rebind(self, cause: str, from_ms: int, to_ms: int, times: Sequence[int]) -> None:
        """As ``spill``."""
        self.rebinds[cause] += len(times)
        for step, count in self._by_step(from_ms, to_ms, times):
            step.rebinds += count

    def _by_step(
        self, from_ms: int, to_ms: int, times: Sequence[int]
    ) -> Iterator[tuple[TimeStep, int]]:
        step = self.step(from_ms)
        if step is self.step(to_ms):
            yield step, len(times)
        else:
            yield from ((self.step(at_ms), 1) for at_ms in times)

    def running(self) -> int:
        """Requests that have not ended, but for those whose clients were refused."""
        return sum(map(len, self.flights.values())) - len(self.limbo.answered)

    def finish(self) -> None:
        self.enter(self.from_ms + len(self.steps) * self.step_ms)
        for lost in self.limbo.failed.values():
            self._lost(lost)
        self.speeds.finish()
