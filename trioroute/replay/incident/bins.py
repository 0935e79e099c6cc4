"""Bins of times: so many that a median is exact to a quarter, and never more."""

from collections.abc import Iterable

BINS_MAX = 160
"""Each one's number is a byte."""


def bin_of(ms: int) -> int:
    """Steps of a quarter of a doubling: at most 25 % wide, whole milliseconds below 8."""
    if ms < 8:
        return max(ms, 0)
    octave = ms.bit_length() - 1
    return min(BINS_MAX - 1, 8 + (octave - 3) * 4 + ((ms >> (octave - 2)) & 3))


def edge_of(place: int) -> int:
    """The least number of milliseconds of a bin."""
    if place < 8:
        return place
    octave, quarter = divmod(place - 8, 4)
    return (4 + quarter) << (octave + 1)


BINS = tuple(bin_of(ms) for ms in range(4096))
"""The bins of most times, made once."""


def bins_of(times_ms: Iterable[int]) -> list[int]:
    """``bin_of`` of each."""
    return [BINS[ms] if 0 <= ms < len(BINS) else bin_of(ms) for ms in times_ms]
