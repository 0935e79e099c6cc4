"""Whether two samples differ by more than chance: the Mann-Whitney test, written out."""

import math
import random
from collections.abc import Sequence

import attrs

SEED = 1
"""Samples are drawn with it, so that the same logs give the same answer."""

SAMPLE_MAX = 20_000
"""Values kept of one log; of more, a sample that is drawn evenly from all of them."""

FEWEST = 20
"""Below this many values on a side the normal approximation is not to be trusted."""


@attrs.define
class Sample:
    """An even sample of all that was added, in memory that does not grow (algorithm R)."""

    values: list[int] = attrs.field(factory=list)
    seen: int = 0
    dice: random.Random = attrs.field(factory=lambda: random.Random(SEED))

    def add(self, value: int) -> None:
        self.seen += 1
        if len(self.values) < SAMPLE_MAX:
            self.values.append(value)
            return
        place = self.dice.randrange(self.seen)
        if place < SAMPLE_MAX:
            self.values[place] = value

    def quantile(self, share: float) -> int | None:
        """The least value that ``share`` of the sample does not exceed; None without any."""
        if not self.values:
            return None
        ordered = sorted(self.values)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@attrs.frozen(kw_only=True)
class Tested:
    """``greater``: the share of pairs in which the second sample's value is the greater one, a tie
    counting half; 0.5 is no difference. ``p``: how often chance alone does at least as much."""

    greater: float
    p: float


def mann_whitney(first: Sequence[int], second: Sequence[int]) -> Tested | None:
    """Two-sided, by the normal approximation with correction for ties and continuity.

    None if a side has fewer than ``FEWEST`` values.
    """
    n, m = len(first), len(second)
    if min(n, m) < FEWEST:
        return None
    marked = sorted([(value, 0) for value in first] + [(value, 1) for value in second])
    ranks = 0.0
    ties = 0
    at = 0
    while at < n + m:
        end = at
        while end < n + m and marked[end][0] == marked[at][0]:
            end += 1
        same = end - at
        middle = (at + 1 + end) / 2  # the mean of the ranks at + 1 to end
        ranks += middle * sum(side for _, side in marked[at:end])
        ties += same**3 - same
        at = end
    u = ranks - m * (m + 1) / 2
    total = n + m
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:  # all values are the same
        return Tested(greater=0.5, p=1.0)
    z = max(0.0, abs(u - n * m / 2) - 0.5) / math.sqrt(variance)
    return Tested(greater=u / (n * m), p=math.erfc(z / math.sqrt(2)))
