"""How long answers took, by replica: to the first byte and whole, as bins of an eighth."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

import attrs

from trioroute.replay.incident.bins import bin_of, bins_of, top_of
from trioroute.replay.plain import UNKNOWN
from trioroute.replay.told import ReplicaTimes


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

    def add(self, ttfb: Sequence[int], took: Sequence[int]) -> None:
        """As ``take`` of each, in milliseconds; UNKNOWN: the first byte is not told."""
        known = [ms for ms in ttfb if ms != UNKNOWN] if UNKNOWN in ttfb else ttfb
        self.ttfb.update(bins_of(known))
        self.took.update(bins_of(took))
        self.latest_ms = max(self.latest_ms, max(known, default=-1))
        self.longest_ms = max(self.longest_ms, max(took, default=-1))

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
    return bisect_left(range(256), rank, key=lambda at: count_up_to(at, bins))


def count_up_to(most: int, bins: bytes | bytearray) -> int:
    """How many are ``most`` or less."""
    return len(bins) - len(bins.translate(None, _UP_TO[most])) if most >= 0 else 0


_UP_TO = tuple(bytes(range(at + 1)) for at in range(256))
