"""Requests that were delayed: how many, whose and where, and the worst of them by name.

Whether one was is asked once, as its answer ends, in whichever phase (``trioroute.replay.usual``).
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping, Sequence

import attrs

from trioroute.replay.incident.limbo import Place
from trioroute.replay.incident.told import Delayed, Late, Phase
from trioroute.replay.incident.toll import Toll
from trioroute.replay.kept import sent_kept
from trioroute.replay.pace import is_whole
from trioroute.replay.plain import UNKNOWN, Dispatches, Ends, Flight, Run, Who
from trioroute.replay.read import Source, decision_name
from trioroute.replay.requested import Delay
from trioroute.replay.usual import Usuals

TIMES_MAX = 1_000_000
"""Delayed requests whose phase is told; of more, those that ended first."""

LOOKS_MAX = 20_000
"""Requests of several attempts whose first one is looked up."""

RUNS_KEPT = 128
"""Runs whose dispatches are at hand, those of some minutes: to look a row up takes as long as it
takes to count a hundred others."""

WORST_EACH, WORST_MAX = 3, 10
"""Names of a row, and of the span."""

SETTLE_MS = 2000
"""So long after an answer's end it is known whether the router had stood still in it: its row comes
once it runs again, among those of what had waited."""

STOOD_MAX = 100
"""Standstills of a router that are looked at, the last ones."""

ELSEWHERE = ""
"""In the toll, where a request ran whose delay is the router's own doing: on no replica."""

_Where = tuple[str, str, Who]
"""Router, replica and who."""


@attrs.frozen
class Before:
    """What came before a dispatch: the line, and the request's ``first`` attempt (None: it is)."""

    waited_ms: int
    first: int | None


@attrs.define
class Delays:
    """``before`` holds what running dispatches had behind them, of those that had anything;
    ``first`` how many were delayed and which first, by where most of their time went."""

    source: Source
    usuals: Usuals
    from_ms: int
    step_ms: int
    before: dict[Place, Before] = attrs.field(factory=dict)
    overdue: "dict[_Where, array[int]]" = attrs.field(factory=dict)
    worst: dict[tuple[_Where, int], list[Late]] = attrs.field(factory=dict)
    first: dict[str, tuple[int, Late]] = attrs.field(factory=dict)
    toll: Toll = attrs.field(factory=Toll)
    count: int = 0
    looks: int = 0
    standstills: dict[str, deque[tuple[int, int]]] = attrs.field(factory=dict)
    runs: deque[tuple[str, Dispatches]] = attrs.field(factory=lambda: deque(maxlen=RUNS_KEPT))
    unsettled: deque[tuple[int, Place, _Where, str, int, Delay]] = attrs.field(factory=deque)

    def stood(self, stream: str, from_ms: int, to_ms: int) -> None:
        """A router did nothing then."""
        known = self.standstills.setdefault(stream, deque(maxlen=STOOD_MAX))
        known.append((from_ms, to_ms))

    def began(self, run: Run) -> None:
        """First dispatches, one of which may be the first attempt of a request that is delayed."""
        if run.begun.numbers:
            self.runs.append((run.stream, run.begun))

    def sent(self, place: Place, waited_ms: int, earlier: tuple[int, ...]) -> None:
        if waited_ms or earlier:
            self.before[place] = Before(waited_ms, earlier[0] if earlier else None)

    def forget(self, place: Place) -> None:
        """It failed, or its first byte is not told."""
        self.before.pop(place, None)

    def late_in(self, stream: str, found: Sequence[Flight | None], ended: Ends) -> list[Who]:
        """Whose requests were delayed, of good answers with what ``found`` says of each."""
        least_ms, before, whose = self.usuals.least_ms, self.before, list[Who]()
        numbers, ttfbs = ended.dispatches, ended.ttfb
        if not before and max(ttfbs, default=0) < least_ms:
            return whose
        rows = zip(numbers, ttfbs, strict=True)
        for at in [
            at for at, (no, ms) in enumerate(rows) if ms >= least_ms or (stream, no) in before
        ]:
            flight, place = found[at], (stream, numbers[at])
            if flight is None:
                continue
            if ttfbs[at] == UNKNOWN:
                self.forget(place)
            elif self.ended(
                place, flight, ended.times[at], ttfbs[at], ended.took[at], ended.paces[at]
            ):
                whose.append(flight[0][1])
        return whose

    def ended(
        self, place: Place, flight: Flight, at_ms: int, ttfb_ms: int | None, took_ms: int, pace: int
    ) -> bool:
        """Whether the request was delayed. ``ttfb_ms`` None: its client left without a byte."""
        before, sent_ms = self.before.pop(place, None), at_ms - took_ms
        (replica, who, _, size), request_id = flight
        came_ms, waited_ms = sent_ms, 0
        if before is not None:
            waited_ms, came_ms = before.waited_ms, self._came_ms(place[0], before, sent_ms)
        delay = self.usuals.delay_of(
            who[0],
            size,
            sent_ms - came_ms,
            ttfb_ms,
            took_ms,
            whole=ttfb_ms is not None and is_whole(pace, ttfb_ms, took_ms),
            waited_ms=waited_ms,
        )
        if delay is not None:
            where = (place[0], replica, who)
            self.unsettled.append((at_ms, place, where, request_id, came_ms, delay))
            self._settle(at_ms - SETTLE_MS)
        return delay is not None

    def finish(self) -> None:
        """No more rows come."""
        self._settle(None)

    def _settle(self, before_ms: int | None) -> None:
        """Keep those that ended before then: what held them up is known by now."""
        waiting = self.unsettled
        while waiting and (before_ms is None or waiting[0][0] < before_ms):
            _, place, where, request_id, came_ms, delay = waiting.popleft()
            first_ms = came_ms + delay.first_byte_ms
            stood_ms = sum(
                max(0, min(to_ms, first_ms) - max(from_ms, came_ms))
                for from_ms, to_ms in self.standstills.get(where[0], ())
            )
            late = _late(place, where, request_id, came_ms, delay, stood_ms)
            self._keep(where, late)

    def _came_ms(self, stream: str, before: Before, sent_ms: int) -> int:
        if before.first is None or self.looks >= LOOKS_MAX:
            return sent_ms - before.waited_ms
        self.looks += 1
        first_ms = self._first_ms(stream, before.first)
        if first_ms is None:
            return sent_ms - before.waited_ms
        return min(first_ms, sent_ms - before.waited_ms)

    def _first_ms(self, stream: str, number: int) -> int | None:
        """When the request of a first attempt came."""
        for router, begun in reversed(self.runs):
            numbers = begun.numbers
            if router == stream and numbers[0] <= number <= numbers[-1]:
                at = bisect_left(numbers, number)
                if numbers[at] == number:
                    return begun.times[at]  # of those in a run none had stood in line
                break
        first = sent_kept(self.source, (stream, number))
        return None if first is None else first[0] - first[1].waited_ms

    def _keep(self, where: _Where, late: Late) -> None:
        self.count += 1
        part, delay, overdue_ms = _part(late), late.delay, _overdue(late)
        there = where[1] if part == "replica" else ELSEWHERE if part == "stood" else None
        self.toll.take(late.at_ms + delay.first_byte_ms, late.model, there)
        times, first = self.first.get(part, (0, late))
        self.first[part] = (times + 1, first)
        if self.count > TIMES_MAX:
            return
        self.overdue.setdefault(where, array("q")).append(overdue_ms)
        worst = self.worst.setdefault((where, (overdue_ms - self.from_ms) // self.step_ms), [])
        if len(worst) < WORST_EACH or _worse(worst[-1]) < _worse(late):
            worst.append(late)
            worst.sort(key=_worse, reverse=True)
            del worst[WORST_EACH:]

    def told(self, phases: Mapping[str, tuple[Phase, ...]]) -> tuple[Delayed, ...]:
        """Of each phase, by the time when a first byte was overdue."""
        rows = list[Delayed]()
        for where, times in self.overdue.items():
            mine, ordered = phases.get(where[0], ()), sorted(times)
            names = [late for key, some in self.worst.items() if key[0] == where for late in some]
            edges = [0, *(bisect_right(ordered, one.to_ms - 1) for one in mine[:-1]), len(ordered)]
            for at, phase in enumerate(mine):
                if edges[at + 1] > edges[at]:
                    last = at == len(mine) - 1
                    these = [
                        late
                        for late in names
                        if (at == 0 or phase.from_ms <= _overdue(late))
                        and (last or _overdue(late) < phase.to_ms)
                    ]
                    count = edges[at + 1] - edges[at]
                    rows.append(_row(phase, where, count, these))
        return tuple(sorted(rows, key=lambda one: (one.from_ms, -one.requests)))

    def latest(self) -> tuple[Late, ...]:
        """The worst of the span, in order of time."""
        found = sorted((late for some in self.worst.values() for late in some), key=_worse)
        return tuple(sorted(found[-WORST_MAX:], key=lambda one: one.at_ms))


def _late(
    place: Place, where: _Where, request_id: str, came_ms: int, delay: Delay, stood_ms: int
) -> Late:
    return Late(
        at_ms=came_ms,
        request_id=request_id,
        decision=decision_name(*place),
        replica=where[1],
        model=where[2][0],
        key=where[2][1],
        delay=delay,
        stood_ms=stood_ms,
    )


def _part(late: Late) -> str:
    """Where most of its time went: ``stood`` (its router did nothing), ``line``, ``tried`` or
    ``replica``."""
    delay = late.delay
    if late.stood_ms and 2 * late.stood_ms >= delay.first_byte_ms - delay.usual_ttfb_ms:
        return "stood"
    there_ms = delay.first_byte_ms - delay.waited_ms - delay.tried_ms
    if delay.waited_ms >= max(delay.tried_ms, there_ms):
        return "line"
    return "tried" if delay.tried_ms > there_ms else "replica"


def _row(phase: Phase, where: _Where, count: int, names: list[Late]) -> Delayed:
    names.sort(key=_worse, reverse=True)
    return Delayed(
        phase=phase.name,
        from_ms=phase.from_ms,
        to_ms=phase.to_ms,
        replica=where[1],
        model=where[2][0],
        key=where[2][1],
        requests=count,
        worst=tuple(one.request_id for one in names[:WORST_EACH]),
    )


def _worse(one: Late) -> int:
    return one.delay.first_byte_ms - one.delay.usual_ttfb_ms


def _overdue(one: Late) -> int:
    return one.at_ms + one.delay.delayed_from_ms
