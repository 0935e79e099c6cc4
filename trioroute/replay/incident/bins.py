"""Bins of times: so many that a quantile is exact to an eighth, and never more."""

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


BINS = tuple(bin_of(ms) for ms in range(4096))
"""The bins of most times, made once."""
