"""Times in which most requests failed, though no replica was out of traffic for it."""

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

    def phase(self, from_ms: int, to_ms: int) -> Phase:
        ended = self.failed.total() + self.good - self.good_before
        how = ", ".join(f"{outcome} {count}" for outcome, count in self.failed.most_common())
        why = f"{self.failed.total()} of {plural(ended, 'request')} that ended failed: {how}"
        return Phase(name=FAILING, from_ms=from_ms, to_ms=to_ms, why=why)


@attrs.define
class Failing:
    """``times``, the last one may go on."""

    times: list[_Time] = attrs.field(factory=list)

    def take(self, at_ms: int, outcome: str, good: int) -> None:
        """A client saw a request fail, when ``good`` others had ended well so far."""
        last = self.times[-1] if self.times else None
        if last is None or at_ms - last.to_ms > NEAR_MS:
            if last is not None and not last.counts:
                self.times.pop()
            if len(self.times) >= TIMES_MAX:
                return
            last = _Time(at_ms, at_ms, good, good)
            self.times.append(last)
        last.to_ms, last.good = max(at_ms, last.to_ms), good
        last.failed[outcome] += 1

    def over(self, phases: Iterable[Phase]) -> Iterator[Phase]:
        """The phases with these times laid over those that tell nothing of them."""
        times = [one for one in self.times if one.counts]
        for phase in phases:
            if phase.name not in UNDER:
                yield phase
                continue
            for one in times:
                from_ms, to_ms = max(phase.from_ms, one.from_ms), min(phase.to_ms, one.to_ms + 1)
                if from_ms >= to_ms:
                    continue
                if phase.from_ms < from_ms:
                    yield attrs.evolve(phase, to_ms=from_ms)
                yield one.phase(from_ms, to_ms)
                phase = attrs.evolve(phase, from_ms=to_ms)
            if phase.from_ms < phase.to_ms:
                yield phase
