"""How long answers took, by replica: to the first byte and whole, as bins of an eighth."""

from bisect import bisect_left
from collections import Counter

import attrs

from trioroute.replay.incident.bins import bin_of, top_of
from trioroute.replay.told import ReplicaTimes

Slowest = tuple[int, str, int]
"""How long the longest answer took, and its router and dispatch."""

NONE: Slowest = (-1, "", 0)

Paced = tuple[int, int | None, int, int]
"""An answer with a pace: its pace, the size of its prompt, when it ended and how long it took."""


@attrs.define
class Few:
    """Some good answers, the bins of their times one after the other: joined and looked through
    in a tenth of the time that counters take."""

    ttfb: bytearray = attrs.field(factory=bytearray)
    took: bytearray = attrs.field(factory=bytearray)
    paces: list[Paced] = attrs.field(factory=list)
    latest_ms: int = -1
    slowest: Slowest = NONE


@attrs.define
class Times:
    """Of good answers, however many. No first byte came later than ``latest_ms``, and none took
    longer than ``longest_ms``."""

    ttfb: Counter[int] = attrs.field(factory=Counter)
    took: Counter[int] = attrs.field(factory=Counter)
    latest_ms: int = -1
    longest_ms: int = -1

    def take(self, ttfb_ms: int | None, took_ms: int) -> None:
        self.took[bin_of(took_ms)] += 1
        self.longest_ms = max(self.longest_ms, took_ms)
        if ttfb_ms is not None:
            self.ttfb[bin_of(ttfb_ms)] += 1
            self.latest_ms = max(self.latest_ms, ttfb_ms)

    def add(self, few: Few) -> None:
        self.ttfb.update(few.ttfb)
        self.took.update(few.took)
        self.latest_ms = max(self.latest_ms, few.latest_ms)
        self.longest_ms = max(self.longest_ms, few.slowest[0])

    def told(self, replica: str) -> ReplicaTimes:
        return ReplicaTimes(
            replica=replica,
            answers=self.took.total(),
            ttfb_p50_ms=quantile_ms(self.ttfb, 500, self.latest_ms),
            ttfb_p99_ms=quantile_ms(self.ttfb, 990, self.latest_ms),
            duration_p50_ms=quantile_ms(self.took, 500, self.longest_ms),
            duration_p99_ms=quantile_ms(self.took, 990, self.longest_ms),
        )


def quantile_ms(bins: Counter[int], thousandths: int, most_ms: int) -> int | None:
    """What so many thousandths of all took at most: the greatest of their bin, but no more than
    ``most_ms``, the longest of all; None without any."""
    return min(top_of(quantile_bin(bins, thousandths)), most_ms) if bins else None


def quantile_bin(bins: Counter[int], thousandths: int) -> int:
    """The bin that so many thousandths of all are in or below."""
    left = -(-bins.total() * thousandths // 1000)
    for place in sorted(bins):
        left -= bins[place]
        if left <= 0:
            return place
    raise AssertionError("the bins add up to their total")


SORTED_MAX = 64
"""Up to so many bins are sorted in half of the time that counting them takes."""


def bin_within(bins: bytes | bytearray, thousandths: int) -> int:
    """``quantile_bin`` of bins as bytes. Those up to a bin are counted without a loop: as many as a
    copy without them is shorter; few are sorted sooner."""
    rank = -(-len(bins) * thousandths // 1000)
    if 0 < rank <= len(bins) <= SORTED_MAX:
        return sorted(bins)[rank - 1]
    return bisect_left(
        range(256), rank, key=lambda at: len(bins) - len(bins.translate(None, _UP_TO[at]))
    )


_UP_TO = tuple(bytes(range(at + 1)) for at in range(256))
