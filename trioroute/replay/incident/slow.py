"""Replicas that were slow for a while: several times slower than the rest of their pool.

Answers are compared with like ones (``trioroute.replay.pace``), by the time a token or a byte, for
some are a hundred times as long as others. The first bytes of a few requests say nothing: those of
prompts that a replica knows come many times sooner than others.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence

import attrs

from trioroute.replay.incident.asked import NO_SIZE, Asked
from trioroute.replay.incident.beside import (
    Beside,
    Served,
    Usual,
    beside,
    joined,
    later_than_usual,
    steps_later,
    surely_not_later,
    usual_of,
)
from trioroute.replay.incident.bins import bin_of
from trioroute.replay.incident.times import Times, quantile_bin, quantile_ms
from trioroute.replay.incident.told import Slow
from trioroute.replay.pace import times_of
from trioroute.replay.plain import Flight
from trioroute.replay.read import decision_name
from trioroute.replay.told import ReplicaTimes

WINDOW_MS = 2000
"""A stretch is told in steps of this, the same of any span; an answer belongs to the one in which
it was asked for."""

TOGETHER_MIN, TOGETHER_MAX = 4, 15
"""So many steps are judged as one, as few of the last ones as have enough answers."""

WAITS_MS = 120_000
"""So long an answer may take to be counted in a stretch; later ones are not."""

SLOW_STEPS = 13
"""Slow: a median so many steps of a pace slower than that of like answers of the rest of its pool:
three times as long."""

SLOWER_MS = 100
"""And so much longer: where all is done in a few milliseconds, nobody notices."""

NEAR_MS = 10_000
"""Stretches of a replica so close to each other are one."""

SLOW_MAX = 100
"""Stretches that are told; of more, the first ones."""

REPLICAS_MAX = 1000
"""Replicas whose times are told."""

Answer = tuple[Flight | None, int, int, int, int, int]
"""What ended (None: what is not known to have run, and so is not counted), when, its dispatch,
the milliseconds to its first byte (UNKNOWN: not told) and in all, and its pace."""


@attrs.define
class _Stretch:
    """``from_ms`` is when the first slow answer was asked for, ``to_ms`` when the last one ended;
    the steps up to ``last`` are counted. ``later``: by how many steps of a pace its answers were
    slower than the usual ones of the ``others``."""

    served: Served
    from_ms: int
    to_ms: int
    last: int = -1
    took: Counter[int] = attrs.field(factory=Counter)
    later: Counter[int] = attrs.field(factory=Counter)
    others: int = 0
    slowest: tuple[int, str, int] = (-1, "", 0)

    def count(self, step: Beside, usual: Usual, routers: Sequence[str]) -> None:
        self.last = step.number
        self.others += sum(map(step.count_others, usual))
        took_ms, router, dispatch = step.asked.longest()
        self.slowest = max(self.slowest, (took_ms, routers[router], dispatch))
        for one in step.asked.paced():
            later = later_than_usual(one, usual)
            if later is not None:
                self.later[later] += 1
                self.took[bin_of(one.took_ms)] += 1


@attrs.define
class Speeds:
    """``windows`` are the steps that answers may still come for, by number."""

    from_ms: int
    windows: dict[int, dict[Served, Asked]] = attrs.field(factory=dict)
    times: dict[str, Times] = attrs.field(factory=dict)
    recent: dict[Served, deque[Beside]] = attrs.field(factory=dict)
    stretches: list[_Stretch] = attrs.field(factory=list)
    routers: list[str] = attrs.field(factory=list)
    judged: int = -(10**9)

    def take(self, stream: str, answers: Iterable[Answer]) -> None:
        """Good answers of one router, each put into its step: a million in an hour."""
        if stream not in self.routers:
            self.routers.append(stream)
        router, windows = self.routers.index(stream), self.windows
        for flight, at_ms, dispatch, ttfb_ms, took_ms, pace in answers:
            if flight is None:
                continue
            (replica, who, _, size), _ = flight
            number = (at_ms - took_ms) // WINDOW_MS
            window = windows.get(number)
            if window is None:
                if number <= self.judged:
                    self._total(replica).add((ttfb_ms,), (took_ms,))
                    continue
                self._judge_before(at_ms)
                window = windows[number] = {}
            served = (replica, who[0])
            asked = window.get(served)
            if asked is None:
                asked = window[served] = Asked()
            of = NO_SIZE if size is None else size
            asked.cells.extend((at_ms, ttfb_ms, took_ms, pace, of, router, dispatch))

    def _judge_before(self, at_ms: int) -> None:
        """Judge the steps that no answer is waited for any more."""
        over = (at_ms - WAITS_MS) // WINDOW_MS - 1
        for number in sorted(number for number in self.windows if number <= over):
            self._judge(number)

    def _judge(self, number: int) -> None:
        window = self.windows.pop(number)
        self.judged = max(self.judged, number)
        for (replica, _), asked in window.items():
            self._total(replica).add(asked.ttfb(), asked.took())
        for served, step in beside(number, window).items():
            steps = self.recent.setdefault(served, deque(maxlen=TOGETHER_MAX))
            steps.append(step)
            self._weigh(served, steps)

    def _weigh(self, served: Served, steps: deque[Beside]) -> None:
        """Judge the last steps: as few of them as have enough answers."""
        recent, last = list[Beside](), steps[-1].number
        for step in reversed(steps):
            if last - step.number >= TOGETHER_MAX:
                return
            recent.append(step)
            if last - step.number + 1 < TOGETHER_MIN:
                continue
            if surely_not_later(recent, SLOW_STEPS):
                return
            mine, others = joined(recent)
            usual = usual_of(mine, others)
            if usual is None:
                continue
            later = steps_later(mine, others, usual)
            if later is not None and later >= SLOW_STEPS:
                self._found(served, recent[::-1], usual)
            return

    def _found(self, served: Served, steps: list[Beside], usual: Usual) -> None:
        """It was slow in these steps; what was not counted of them before is told."""
        slow = [
            one
            for step in steps
            for one in step.asked.paced()
            if (later_than_usual(one, usual) or 0) >= SLOW_STEPS
        ]
        took = sorted(one.took_ms for one in slow)[len(slow) // 2]
        if took - took / times_of(SLOW_STEPS) < SLOWER_MS:
            return
        from_ms = min(one.ended_ms - one.took_ms for one in slow)
        to_ms = max(one.ended_ms for one in slow)
        found = self._stretch(served, from_ms, to_ms)
        for step in steps:
            if found is not None and step.number > found.last:
                found.count(step, usual, self.routers)

    def _stretch(self, served: Served, from_ms: int, to_ms: int) -> _Stretch | None:
        for one in reversed(self.stretches):
            if one.served == served and from_ms - one.to_ms <= NEAR_MS:
                one.to_ms = max(one.to_ms, to_ms)
                return one
        if len(self.stretches) >= SLOW_MAX:
            return None
        self.stretches.append(_Stretch(served, from_ms, to_ms))
        return self.stretches[-1]

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
            p50_ms = quantile_ms(one.took, 500, one.slowest[0]) or 0
            yield Slow(
                replica=one.served[0],
                model=one.served[1],
                from_ms=max(one.from_ms, self.from_ms),
                to_ms=min(one.to_ms, to_ms),
                answers=one.took.total(),
                p50_ms=p50_ms,
                others_answers=one.others,
                others_p50_ms=round(p50_ms / times_of(quantile_bin(one.later, 500))),
                slowest=decision_name(*one.slowest[1:]),
            )
