"""How long answers took, by replica: to the first byte and whole, as bins of a quarter."""

from collections import Counter

import attrs

from trioroute.replay.incident.bins import BINS, bin_of, edge_of
from trioroute.replay.told import ReplicaTimes


@attrs.define
class Times:
    """Of good answers. ``slowest`` is how long the longest took, and its router and dispatch."""

    ttfb: Counter[int] = attrs.field(factory=Counter)
    took: Counter[int] = attrs.field(factory=Counter)
    slowest: tuple[int, str, int] = (-1, "", 0)

    def take(self, ttfb_ms: int | None, took_ms: int) -> None:
        known = 0 <= took_ms < len(BINS)
        self.took[BINS[took_ms] if known else bin_of(took_ms)] += 1
        if ttfb_ms is not None:
            self.ttfb[BINS[ttfb_ms] if 0 <= ttfb_ms < len(BINS) else bin_of(ttfb_ms)] += 1

    def add(self, other: "Times") -> None:
        self.ttfb.update(other.ttfb)
        self.took.update(other.took)
        self.slowest = max(self.slowest, other.slowest)

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
