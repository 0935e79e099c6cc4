"""Rows that are not where they should be: between segments, and within what was read."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from eventlog.record import Head
from eventlog.segments import SegmentFile


def before_hole(numbers: Sequence[int], first: int) -> int:
    """How many of ``numbers`` run on from ``first`` without a hole. They ascend but for damage."""
    if list(numbers) == list(range(first, first + len(numbers))):
        return len(numbers)
    return next(i for i, number in enumerate(numbers) if number != first + i)


def rows_between(
    files: Sequence[SegmentFile], head_of: Callable[[SegmentFile], Head | None]
) -> list[tuple[int, int]]:
    """The first and last seq of what is missing between each segment and the next."""
    found: list[tuple[int, int]] = []
    for file, following in pairwise(files):
        head = head_of(file)
        last = file.first - 1 if head is None else head.seq
        if last + 1 < following.first:
            found.append((last + 1, following.first - 1))
    return found
