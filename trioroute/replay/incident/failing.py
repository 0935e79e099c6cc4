"""Times in which most requests failed, though no replica was out of traffic for it.

They are sought once the phases are known, in each stretch of phases that tell nothing of failures:
what failed before or after, in an outage, says nothing of a stretch in which all went well.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

import attrs

from trioroute.replay.incident.told import Phase
from trioroute.replay.words import plural

FAILING = "failing"

NEAR_MS = 10_000
"""Failures this close to each other are of one time."""

LEAST = 3
LASTS_MS = 1000
"""So many failures make one that lasts so long: a burst of them is one event."""

TIMES_MAX = 500
"""Such times that are told of one stretch, the first ones."""

FAILURES_MAX = 1_000_000
"""Failures that are kept, the first ones."""

UNDER = frozenset({"normal", "recovery", "reduced capacity"})
"""The phases that tell nothing of failures: in them, such a time is told instead."""


@attrs.define
class _Time:
    """``good`` requests had ended well at its end, ``good_before`` of them at its beginning."""

    from_ms: int
    to_ms: int
    good_before: int
    good: int
    failed: Counter[str] = attrs.field(factory=Counter)

    @property
    def counts(self) -> bool:
        """It lasted, and at least as many failed as ended well."""
        if self.to_ms - self.from_ms < LASTS_MS:
            return False
        return self.failed.total() >= max(LEAST, self.good - self.good_before)

    def phase(self, to_ms: int) -> Phase:
        ended = self.failed.total() + self.good - self.good_before
        how = ", ".join(f"{outcome} {count}" for outcome, count in self.failed.most_common())
        why = f"{self.failed.total()} of {plural(ended, 'request')} that ended failed: {how}"
        to_ms = min(to_ms, self.to_ms + 1)
        return Phase(name=FAILING, from_ms=self.from_ms, to_ms=to_ms, why=why)


@attrs.define
class Failing:
    """Each failure: when, how (a place in ``outcomes``), and how many requests had ended well."""

    times: "array[int]" = attrs.field(factory=lambda: array("q"))
    hows: "array[int]" = attrs.field(factory=lambda: array("B"))
    goods: "array[int]" = attrs.field(factory=lambda: array("q"))
    outcomes: list[str] = attrs.field(factory=list)

    def take(self, at_ms: int, outcome: str, good: int) -> None:
        """A client saw a request fail, when ``good`` others had ended well so far."""
        if len(self.times) >= FAILURES_MAX:
            return
        if outcome not in self.outcomes:
            self.outcomes.append(outcome)
        self.times.append(max(at_ms, self.times[-1]) if self.times else at_ms)
        self.hows.append(self.outcomes.index(outcome))
        self.goods.append(good)

    def over(self, phases: Iterable[Phase]) -> Iterator[Phase]:
        """The phases with these times laid over those that tell nothing of them."""
        stretch = list[Phase]()
        for phase in phases:
            if phase.name in UNDER:
                stretch.append(phase)
                continue
            yield from self._laid(stretch, last=False)
            stretch = []
            yield phase
        yield from self._laid(stretch, last=True)

    def _laid(self, stretch: list[Phase], *, last: bool) -> Iterator[Phase]:
        """``last``: the stretch ends with the span, and its end is in it."""
        if not stretch:
            return
        end_ms = stretch[-1].to_ms
        times = self._within(stretch[0].from_ms, end_ms + last)
        for phase in stretch:
            for one in times:
                from_ms, to_ms = max(phase.from_ms, one.from_ms), min(phase.to_ms, one.to_ms + 1)
                if from_ms >= to_ms:
                    continue
                if phase.from_ms < from_ms:
                    yield attrs.evolve(phase, to_ms=from_ms)
                if from_ms == one.from_ms:
                    yield one.phase(end_ms)
                phase = attrs.evolve(phase, from_ms=to_ms)
            if phase.from_ms < phase.to_ms:
                yield phase

    def _within(self, from_ms: int, to_ms: int) -> list[_Time]:
        """Those of the failures from ``from_ms`` on that came before ``to_ms``."""
        found = list[_Time]()
        for at in range(bisect_left(self.times, from_ms), bisect_left(self.times, to_ms)):
            at_ms, good = self.times[at], self.goods[at]
            if not found or at_ms - found[-1].to_ms > NEAR_MS:
                if found and not found[-1].counts:
                    found.pop()
                if len(found) >= TIMES_MAX:
                    break
                found.append(_Time(at_ms, at_ms, good, good))
            one = found[-1]
            one.to_ms, one.good = at_ms, good
            one.failed[self.outcomes[self.hows[at]]] += 1
        return [one for one in found if one.counts]
