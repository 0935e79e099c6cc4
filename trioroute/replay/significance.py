"""Whether two logs differ by more than chance.

Requests of one log are not independent of each other: one burst makes many of them wait. A test
that takes them so, such as Mann and Whitney's with its own p, calls two runs of the same traffic
different in more than one of ten cases where it promises one of a hundred. So each log is cut into
blocks of consecutive rows, and what is compared are the means of blocks, by Welch's t-test, less
sure the more a block is like the one before.
"""

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, variance

import attrs

SEED = 1
"""Samples are drawn with it, so that the same logs give the same answer."""

SAMPLE_MAX = 20_000
"""Values kept of one log; of more, a sample that is drawn evenly from all of them."""

FEWEST = 20
"""Below this many values on a side nothing is said."""

BLOCKS = 20
"""Blocks that a log is cut into: long enough to hold a burst, many enough to tell chance."""

BLOCKS_MIN = 5


@attrs.define
class Sample:
    """An even sample of all that was added, in memory that does not grow (algorithm R).

    ``kept`` holds each value with the block it is from.
    """

    kept: list[tuple[int, int]] = attrs.field(factory=list)
    seen: int = 0
    dice: random.Random = attrs.field(factory=lambda: random.Random(SEED))

    def add(self, block: int, value: int) -> None:
        self.seen += 1
        if len(self.kept) < SAMPLE_MAX:
            self.kept.append((block, value))
            return
        place = self.dice.randrange(self.seen)
        if place < SAMPLE_MAX:
            self.kept[place] = (block, value)

    def quantile(self, share: float) -> int | None:
        """The least value that ``share`` of the sample does not exceed; None without any."""
        if not self.kept:
            return None
        ordered = sorted(value for _, value in self.kept)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@attrs.frozen(kw_only=True)
class Tested:
    """``greater``: the share of pairs in which the second sample's value is the greater one, a tie
    counting half; 0.5 is no difference. ``p``: how often chance alone does at least as much."""

    greater: float
    p: float


def ranks_apart(first: Sample, second: Sample) -> Tested | None:
    """Whether the second's values are greater or less, whatever their spread is.

    None if a side has fewer than ``FEWEST`` values or ``BLOCKS_MIN`` blocks.
    """
    mine, theirs = first.kept, second.kept
    if min(len(mine), len(theirs)) < FEWEST:
        return None
    ordered = sorted(value for _, value in (*mine, *theirs))
    p = means_apart(_block_ranks(mine, ordered), _block_ranks(theirs, ordered))
    if p is None:
        return None
    ranks = sum(_rank(value, ordered) for _, value in theirs)
    greater = (ranks - len(theirs) ** 2 / 2) / (len(mine) * len(theirs))
    return Tested(greater=greater, p=p)


def _rank(value: int, ordered: Sequence[int]) -> float:
    """Its place among all, the middle one of those of its ties."""
    return (bisect_left(ordered, value) + bisect_right(ordered, value)) / 2


def _block_ranks(kept: Sequence[tuple[int, int]], ordered: Sequence[int]) -> list[float]:
    blocks: dict[int, list[float]] = {}
    for block, value in kept:
        blocks.setdefault(block, []).append(_rank(value, ordered))
    return [fmean(blocks[block]) for block in sorted(blocks)]


def means_apart(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Welch's two-sided p of the means of two logs' blocks, in order; None with fewer than
    ``BLOCKS_MIN``."""
    if min(len(first), len(second)) < BLOCKS_MIN:
        return None
    (mine, n), (theirs, m) = _noise(first), _noise(second)
    apart, noise = abs(fmean(first) - fmean(second)), mine + theirs
    if noise < 1e-18:  # no block differs from the others of its log
        return 1.0 if apart < 1e-9 else 0.0
    freedom = noise**2 / (mine**2 / (n - 1) + theirs**2 / (m - 1))
    return _student_tails(apart / math.sqrt(noise), freedom)


def _noise(means: Sequence[float]) -> tuple[float, float]:
    """The variance of their mean, and how many independent blocks they are worth: a burst at the
    edge of two blocks makes both alike, which widens the one and lessens the other."""
    count, spread, middle = len(means), variance(means), fmean(means)
    if not spread:
        return 0.0, count
    along = sum((one - middle) * (after - middle) for one, after in pairwise(means))
    along /= (count - 1) * spread
    wider = 1 + 2 * max(0.0, along + 1 / count)  # of independent blocks it is -1/count on average
    return spread / count * wider, max(BLOCKS_MIN / 2, count / wider)


def _student_tails(t: float, freedom: float) -> float:
    """Both tails of Student's distribution beyond ``t``: its regularised incomplete beta."""
    x = freedom / (freedom + t * t)
    a, b = freedom / 2, 0.5
    if x >= 1:
        return 1.0
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta)
    if x < (a + 1) / (a + b + 2):
        return min(1.0, front * _fraction(a, b, x) / a)
    return min(1.0, max(0.0, 1 - front * _fraction(b, a, 1 - x) / b))


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    made = d
    for m in range(1, 500):
        for part in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + part * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + part / c
            c = c if abs(c) > tiny else tiny
            made *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return made
