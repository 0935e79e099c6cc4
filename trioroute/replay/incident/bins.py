"""Bins of times: so many that a quantile is exact to an eighth, and never more."""

from collections.abc import Sequence

BINS_MAX = 256
"""Each one's number is a byte."""


def bin_of(ms: int) -> int:
    """Steps of an eighth of a doubling: at most 12.5 % wide, whole milliseconds below 16."""
    if ms < 16:
        return max(ms, 0)
    octave = ms.bit_length() - 1
    return min(BINS_MAX - 1, 16 + (octave - 4) * 8 + ((ms >> (octave - 3)) & 7))


def edge_of(place: int) -> int:
    """The least number of milliseconds of a bin."""
    if place < 16:
        return place
    octave, eighth = divmod(place - 16, 8)
    return (8 + eighth) << (octave + 1)


def top_of(place: int) -> int:
    """The greatest number of milliseconds of a bin."""
    return edge_of(place + 1) - 1


def bins_of(times: Sequence[int]) -> bytes:
    """The bins of many times."""
    if times and min(times) >= 0:
        try:
            return bytes(map(_BINS.__getitem__, times))
        except IndexError:
            pass  # some are longer than what is in the table
    return bytes(map(bin_of, times))


_BINS = b"".join(bytes([at]) * (edge_of(at + 1) - edge_of(at)) for at in range(bin_of(1 << 17)))
"""The bins of all times up to two minutes, made once."""
