"""The answers of a replica that were asked for in one step of time.

All numbers of them are in one array: two minutes of answers wait to be judged, and looked at as
objects of their own, of which a processor's cache holds few, they took twice the time.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

import attrs

from trioroute.replay.pace import NO_PACE, is_stream, parted

Kind = tuple[int, int | None]
"""Answers that are compared: the kind of pace, and of a whole one, which has the time to its first
byte in it, the size of its prompt."""

NO_SIZE = -1

_CELLS = 7


def _numbers() -> "array[int]":
    return array("q")


@attrs.frozen
class Paced:
    """An answer with a pace: its kind, its step, when it ended and how long it took."""

    kind: Kind
    step: int
    ended_ms: int
    took_ms: int


@attrs.frozen
class Asked:
    """``cells`` are of each answer: when it ended, the milliseconds to its first byte (UNKNOWN: not
    told) and in all, its pace, the size of its prompt (NO_SIZE: not known), its router by number
    and its dispatch. ``cells.extend`` takes one."""

    cells: "array[int]" = attrs.field(factory=_numbers)

    def ttfb(self) -> "array[int]":
        return self.cells[1::_CELLS]

    def took(self) -> "array[int]":
        return self.cells[2::_CELLS]

    def longest(self) -> tuple[int, int, int]:
        """How long the longest answer took, its router by number and its dispatch; the first of
        several."""
        took = self.took()
        at = _CELLS * took.index(max(took))
        return self.cells[at + 2], self.cells[at + 5], self.cells[at + 6]

    def by_kind(self) -> dict[Kind, bytearray]:
        """The steps of its paces."""
        found = defaultdict[Kind, bytearray](bytearray)
        for pace, size in zip(self.cells[3::_CELLS], self.cells[4::_CELLS], strict=True):
            if pace != NO_PACE:
                kind, step = _kind_of(pace, size)
                found[kind].append(step)
        return found

    def paced(self) -> Iterator[Paced]:
        """One by one, those with a pace."""
        columns = [self.cells[at::_CELLS] for at in (0, 2, 3, 4)]
        for ended_ms, took_ms, pace, size in zip(*columns, strict=True):
            if pace != NO_PACE:
                kind, step = _kind_of(pace, size)
                yield Paced(kind, step, ended_ms, took_ms)


@lru_cache(maxsize=1 << 13)
def _kind_of(pace: int, size: int) -> tuple[Kind, int]:
    """Remembered, for every answer of a span is asked and few of them differ."""
    kind, step = parted(pace)
    return (kind, None if is_stream(kind) or size == NO_SIZE else size), step
