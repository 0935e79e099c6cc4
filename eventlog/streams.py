"""Where the rows of a stream are in a segment, found by halving: no index tells it.

An index of (stream, version) took a tenth of a log's room and of the CPU of an append. Versions of
a stream grow with seq, and where a stream has a stretch to itself, the one tells the other: with
one writing stream each look-up is a few rows, however long the segment is.
"""

from collections.abc import Callable
from typing import Any

import attrs

from eventlog.errors import LogDamaged

SCAN_ROWS = 256
"""So many rows are read through rather than halved on."""

AHEAD_MAX = 100
"""Streams of which it is remembered where rows were found."""

# The + keeps SQLite from the index of stream and version that segments once had.
_ROW = "SELECT seq, stream, version FROM events"
FIRST = f"{_ROW} ORDER BY seq LIMIT 1"
LAST = f"{_ROW} ORDER BY seq DESC LIMIT 1"
FROM = f"{_ROW} WHERE seq >= ? ORDER BY seq LIMIT 1"
UNTIL = f"{_ROW} WHERE seq <= ? ORDER BY seq DESC LIMIT 1"
_WITHIN = f"{_ROW} WHERE seq BETWEEN ? AND ? AND +stream = ?"
NEXT_WITHIN = f"{_WITHIN} AND version > ? ORDER BY seq LIMIT 1"
LAST_WITHIN = f"{_WITHIN} ORDER BY seq DESC LIMIT 1"

Query = Callable[..., list[tuple[Any, ...]]]
"""Runs SQL with parameters on one segment."""


@attrs.frozen
class Spot:
    """A row's place: ``version`` of ``stream`` is at ``seq``."""

    seq: int
    stream: str
    version: int


@attrs.frozen
class StreamSearch:
    """Looks in the segment that ``query`` asks; ``where`` names it. Raises LogDamaged, and what
    ``query`` raises."""

    query: Query
    where: str
    ahead: dict[str, int] = attrs.field(factory=dict)
    """By how much seq was ahead of version where rows of a stream were found last."""

    def next_of(self, stream: str, after: int) -> Spot | None:
        """The first row of ``stream`` with a version above ``after``, None if there is none."""
        spot = self._near(stream, after + 1) or self._sought(stream, after)
        if spot is not None:
            if len(self.ahead) >= AHEAD_MAX:
                self.ahead.clear()
            self.ahead[stream] = spot.seq - spot.version
        return spot

    def _near(self, stream: str, version: int) -> Spot | None:
        """The very row, if it lies as the last one did that was found."""
        ahead = self.ahead.get(stream)
        spot = None if ahead is None else self._row(FROM, version + ahead)
        found = spot is not None and (spot.stream, spot.version) == (stream, version)
        return spot if found else None

    def _sought(self, stream: str, after: int) -> Spot | None:
        begin = self._row(FIRST)
        if begin is not None and begin.stream == stream:
            if begin.version > after:
                return begin
            # Where damage hides the end, what lies before it is found all the same.
            self.ahead.setdefault(stream, begin.seq - begin.version)
            if (spot := self._near(stream, after + 1)) is not None:
                return spot
        waiting = self._whole()
        while waiting:
            low, high = waiting.pop()
            if low.stream == stream and low.version > after:
                return low
            if high.stream == stream and high.version <= after:
                continue
            if _is_one_stream(low, high):
                if low.stream != stream:
                    continue
                spot = self._row(FROM, low.seq + after + 1 - low.version)
                if spot is not None and spot.stream == stream and spot.version > after:
                    return spot
            if high.seq - low.seq >= SCAN_ROWS:
                waiting += reversed(self._halves(low, high))
                continue
            spot = self._row(NEXT_WITHIN, low.seq, high.seq, stream, after)
            if spot is not None:
                return spot
        return None

    def last_of(self, stream: str) -> Spot | None:
        """The last row of ``stream``, None if it has none here."""
        waiting = self._whole()
        while waiting:
            low, high = waiting.pop()
            if high.stream == stream:
                return high
            if _is_one_stream(low, high):
                continue
            if high.seq - low.seq >= SCAN_ROWS:
                waiting += self._halves(low, high)
                continue
            spot = self._row(LAST_WITHIN, low.seq, high.seq, stream)
            if spot is not None:
                return spot
        return None

    def _whole(self) -> list[tuple[Spot, Spot]]:
        low, high = self._row(FIRST), self._row(LAST)
        return [] if low is None or high is None else [(low, high)]

    def _halves(self, low: Spot, high: Spot) -> list[tuple[Spot, Spot]]:
        middle = (low.seq + high.seq) // 2
        left, right = self._row(UNTIL, middle), self._row(FROM, middle + 1)
        if left is None or right is None:
            raise LogDamaged(self.where, middle, "file: rows that were there are not found")
        if not low.seq <= left.seq <= middle < right.seq <= high.seq:
            reason = f"order: row {left.seq} or {right.seq} is out of place"
            raise LogDamaged(self.where, middle, reason)
        return [(low, left), (right, high)]

    def _row(self, sql: str, *parameters: object) -> Spot | None:
        rows = self.query(sql, *parameters)
        return Spot(*rows[0]) if rows else None


def _is_one_stream(low: Spot, high: Spot) -> bool:
    """Whether all rows between two are of their stream: its versions leave no room for others."""
    return low.stream == high.stream and high.version - low.version == high.seq - low.seq
