"""How long answers took, by replica: to the first byte and whole, as bins of a quarter."""

from bisect import bisect_left
from collections import Counter

import attrs

from trioroute.replay.incident.bins import bin_of, edge_of
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
    slowest: Slowest = NONE


@attrs.define
class Times:
    """Of good answers, however many."""

    ttfb: Counter[int] = attrs.field(factory=Counter)
    took: Counter[int] = attrs.field(factory=Counter)
    slowest: Slowest = NONE

    def take(self, ttfb_ms: int | None, took_ms: int) -> None:
        self.took[bin_of(took_ms)] += 1
        if ttfb_ms is not None:
            self.ttfb[bin_of(ttfb_ms)] += 1

    def add(self, few: Few) -> None:
        self.ttfb.update(few.ttfb)
        self.took.update(few.took)
        self.slowest = max(self.slowest, few.slowest)

    def told(self, replica: str) -> ReplicaTimes:
        return ReplicaTimes(
            replica=replica,
            answers=self.took.total(),
            ttfb_p50_ms=quantile_ms(self.ttfb, 500),
            ttfb_p99_ms=quantile_ms(self.ttfb, 990),
            duration_p50_ms=quantile_ms(self.took, 500),
            duration_p99_ms=quantile_ms(self.took, 990),
        )


def quantile_ms(bins: Counter[int], thousandths: int) -> int | None:
    """The least of the bin that so many thousandths of all are in or below; None without any."""
    return edge_of(quantile_bin(bins, thousandths)) if bins else None


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
