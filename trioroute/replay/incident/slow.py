"""Replicas that were slow for a while: several times slower than the rest of their pool.

Whole answers are compared. The first bytes of a few requests say nothing: those of prompts that a
replica knows come many times sooner than others.
"""

from collections import Counter, deque
from collections.abc import Iterator

import attrs

from trioroute.replay.incident.times import Times, quantile_bin, quantile_ms
from trioroute.replay.incident.told import Slow
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

_Step = tuple[int, Times, Times]
"""Number of a step, the answers of a replica, and of the others of its pool."""


@attrs.define
class _Stretch:
    """``others`` are the answers of the rest of its pool then."""

    served: Served
    from_ms: int
    to_ms: int
    mine: Times
    others: Times


@attrs.define
class Speeds:
    """``windows`` are the steps that answers may still come for, by number."""

    from_ms: int
    windows: dict[int, dict[Served, Times]] = attrs.field(factory=dict)
    times: dict[str, Times] = attrs.field(factory=dict)
    recent: dict[Served, deque[_Step]] = attrs.field(factory=dict)
    stretches: list[_Stretch] = attrs.field(factory=list)
    judged: int = -(10**9)

    def take(
        self, served: Served, at_ms: int, ttfb_ms: int | None, took_ms: int, place: tuple[str, int]
    ) -> None:
        """A good answer that ended at ``at_ms``."""
        number = (at_ms - took_ms - self.from_ms) // WINDOW_MS
        if number <= self.judged:
            self._total(served[0]).take(ttfb_ms, took_ms)
            return
        window = self.windows.get(number)
        if window is None:
            self._judge_before(at_ms)
            window = self.windows[number] = {}
        times = window.get(served)
        if times is None:
            times = window[served] = Times()
        times.take(ttfb_ms, took_ms)
        if took_ms > times.slowest[0]:
            times.slowest = (took_ms, *place)

    def _judge_before(self, at_ms: int) -> None:
        """Judge the steps that no answer is waited for any more."""
        over = (at_ms - WAITS_MS - self.from_ms) // WINDOW_MS - 1
        for number in sorted(number for number in self.windows if number <= over):
            self._judge(number)

    def _judge(self, number: int) -> None:
        window = self.windows.pop(number)
        self.judged = max(self.judged, number)
        for served, times in window.items():
            self._total(served[0]).add(times)
            others = Times()
            for one, theirs in window.items():
                if one[1] == served[1] and one != served:
                    others.add(theirs)
            steps = self.recent.setdefault(served, deque(maxlen=TOGETHER_MAX))
            steps.append((number, times, others))
            if self._weigh(served, steps):
                steps.clear()

    def _weigh(self, served: Served, steps: deque[_Step]) -> bool:
        """Whether it was slow in the last steps: as few of them as have enough answers."""
        mine, others, last = Times(), Times(), steps[-1][0]
        for number, own, theirs in reversed(steps):
            if last - number >= TOGETHER_MAX:
                return False
            mine.add(own)
            others.add(theirs)
            few = mine.took.total() < ANSWERS_MIN or others.took.total() < OTHERS_MIN
            if few or last - number + 1 < TOGETHER_MIN:
                continue
            slow = _slow(mine.took, others.took)
            if slow:
                self._found(_Stretch(served, self._at(number), self._at(last + 1), mine, others))
            return slow
        return False

    def _at(self, number: int) -> int:
        return self.from_ms + number * WINDOW_MS

    def _found(self, found: _Stretch) -> None:
        for one in reversed(self.stretches):
            near = found.from_ms - one.to_ms <= NEAR_MS
            if one.served == found.served and near:
                one.to_ms = found.to_ms
                one.mine.add(found.mine)
                one.others.add(found.others)
                return
        if len(self.stretches) < SLOW_MAX:
            self.stretches.append(found)

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
            mine, others = one.mine.took, one.others.took
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


def _slow(mine: Counter[int], others: Counter[int]) -> bool:
    """A much longer median, and three in four take longer than three in four of the others: a
    mixture of short answers and long ones is no slowness."""
    if mine.total() < ANSWERS_MIN or others.total() < OTHERS_MIN:
        return False
    median, other = quantile_ms(mine, 500) or 0, quantile_ms(others, 500) or 0
    if median < other * SLOW_TIMES or median - other < SLOWER_MS:
        return False
    return quantile_bin(mine, 250) > quantile_bin(others, 750)
