"""Replicas that were slow for a while: several times slower than the rest of their pool.

Whole answers are compared. The first bytes of a few requests say nothing: those of prompts that a
replica knows come many times sooner than others.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator

import attrs

from trioroute.replay.incident.bins import BINS, bin_of, edge_of
from trioroute.replay.incident.times import Few, Times, bin_within, quantile_ms
from trioroute.replay.incident.told import Slow
from trioroute.replay.plain import UNKNOWN, Flight
from trioroute.replay.read import decision_name
from trioroute.replay.told import ReplicaTimes

WINDOW_MS = 2000
"""A stretch is told in steps of this; an answer belongs to the one in which it was asked for."""

TOGETHER_MIN, TOGETHER_MAX = 4, 15
"""So many steps are judged as one, as few of the last ones as have enough answers: a burst of long
answers that all went to one replica is over sooner."""

WAITS_MS = 120_000
"""So long an answer may take to be counted in a stretch; later ones are not."""

SLOW_TIMES = 3
"""Slow: a median so many times that of the rest of its pool."""

SLOWER_MS = 100
"""And so much longer: where all is done in a few milliseconds, nobody notices."""

NEAR_MS = 10_000
"""Stretches of a replica so close to each other are one."""

ANSWERS_MIN, OTHERS_MIN = 5, 10
"""Fewer answers of the replica in a step, or of the others, do not say that it is slow."""

SLOW_MAX = 100
"""Stretches that are told; of more, the first ones."""

REPLICAS_MAX = 1000
"""Replicas whose times are told."""

Served = tuple[str, str | None]
"""A replica, and a model that it served."""

Answer = tuple[Flight | None, int, int, int, int]
"""What ended (None: what is not known to have run, and so is not counted), when, its dispatch, and
the milliseconds to its first byte (UNKNOWN: not told) and in all."""

_Step = tuple[int, Few, bytes]
"""Number of a step, the answers of a replica, and how long those of the others of its pool took."""


@attrs.define
class _Stretch:
    """``others`` tells how long the answers of the rest of its pool took then."""

    served: Served
    from_ms: int
    to_ms: int
    mine: Times = attrs.field(factory=Times)
    others: Counter[int] = attrs.field(factory=Counter)


@attrs.define
class Speeds:
    """``windows`` are the steps that answers may still come for, by number."""

    from_ms: int
    windows: dict[int, dict[Served, Few]] = attrs.field(factory=dict)
    times: dict[str, Times] = attrs.field(factory=dict)
    recent: dict[Served, deque[_Step]] = attrs.field(factory=dict)
    stretches: list[_Stretch] = attrs.field(factory=list)
    judged: int = -(10**9)

    def take(self, stream: str, answers: Iterable[Answer]) -> None:
        """Good answers of one router."""
        windows, begin_ms = self.windows, self.from_ms
        for flight, at_ms, dispatch, ttfb_ms, took_ms in answers:
            if flight is None:
                continue
            (replica, who, _, _), _ = flight
            served = (replica, who[0])
            number = (at_ms - took_ms - begin_ms) // WINDOW_MS
            window = windows.get(number)
            if window is None:
                if number <= self.judged:
                    known = None if ttfb_ms == UNKNOWN else ttfb_ms
                    self._total(replica).take(known, took_ms)
                    continue
                self._judge_before(at_ms)
                window = windows[number] = {}
            few = window.get(served)
            if few is None:
                few = window[served] = Few()
            few.took.append(BINS[took_ms] if 0 <= took_ms < len(BINS) else bin_of(took_ms))
            if ttfb_ms != UNKNOWN:
                few.ttfb.append(BINS[ttfb_ms] if 0 <= ttfb_ms < len(BINS) else bin_of(ttfb_ms))
            if took_ms > few.slowest[0]:
                few.slowest = (took_ms, stream, dispatch)

    def _judge_before(self, at_ms: int) -> None:
        """Judge the steps that no answer is waited for any more."""
        over = (at_ms - WAITS_MS - self.from_ms) // WINDOW_MS - 1
        for number in sorted(number for number in self.windows if number <= over):
            self._judge(number)

    def _judge(self, number: int) -> None:
        window = self.windows.pop(number)
        self.judged = max(self.judged, number)
        for served, few in window.items():
            self._total(served[0]).add(few)
            others = b"".join(
                theirs.took
                for one, theirs in window.items()
                if one[1] == served[1] and one != served
            )
            steps = self.recent.setdefault(served, deque(maxlen=TOGETHER_MAX))
            steps.append((number, few, others))
            if self._weigh(served, steps):
                steps.clear()

    def _weigh(self, served: Served, steps: deque[_Step]) -> bool:
        """Whether it was slow in the last steps: as few of them as have enough answers."""
        mine, others, last = bytearray(), bytearray(), steps[-1][0]
        for place, (number, own, theirs) in enumerate(reversed(steps), 1):
            if last - number >= TOGETHER_MAX:
                return False
            mine += own.took
            others += theirs
            few = len(mine) < ANSWERS_MIN or len(others) < OTHERS_MIN
            if few or last - number + 1 < TOGETHER_MIN:
                continue
            slow = _slow(mine, others)
            if slow:
                self._found(served, [steps[-at] for at in range(1, place + 1)])
            return slow
        return False

    def _at(self, number: int) -> int:
        return self.from_ms + number * WINDOW_MS

    def _found(self, served: Served, steps: list[_Step]) -> None:
        """It was slow in these steps, the last one first."""
        from_ms, to_ms = self._at(steps[-1][0]), self._at(steps[0][0] + 1)
        found = _Stretch(served, from_ms, to_ms)
        for one in reversed(self.stretches):
            if one.served == served and from_ms - one.to_ms <= NEAR_MS:
                one.to_ms, found = to_ms, one
                break
        else:
            if len(self.stretches) < SLOW_MAX:
                self.stretches.append(found)
        for _, few, others in steps:
            found.mine.add(few)
            found.others.update(others)

    def _total(self, replica: str) -> Times:
        found = self.times.get(replica)
        if found is None:
            found = Times()
            if len(self.times) < REPLICAS_MAX:
                self.times[replica] = found
        return found

    def finish(self) -> None:
        for number in sorted(self.windows):
            self._judge(number)

    def replicas(self) -> tuple[ReplicaTimes, ...]:
        return tuple(times.told(name) for name, times in sorted(self.times.items()))

    def slow(self, to_ms: int) -> Iterator[Slow]:
        for one in self.stretches:
            mine, others = one.mine.took, one.others
            yield Slow(
                replica=one.served[0],
                model=one.served[1],
                from_ms=max(one.from_ms, self.from_ms),
                to_ms=min(one.to_ms, to_ms),
                answers=mine.total(),
                p50_ms=quantile_ms(mine, 500) or 0,
                others_answers=others.total(),
                others_p50_ms=quantile_ms(others, 500) or 0,
                slowest=decision_name(*one.mine.slowest[1:]),
            )


def _slow(mine: bytearray, others: bytearray) -> bool:
    """A much longer median, and three in four take longer than three in four of the others: a
    mixture of short answers and long ones is no slowness."""
    median, other = edge_of(bin_within(mine, 500)), edge_of(bin_within(others, 500))
    if median < other * SLOW_TIMES or median - other < SLOWER_MS:
        return False
    return bin_within(mine, 250) > bin_within(others, 750)
