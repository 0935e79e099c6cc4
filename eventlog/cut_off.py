"""Reading a log whose end cannot be read, as of a file that was cut off, up to where it can."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from eventlog.errors import LogDamaged
from eventlog.reading import SqliteReader
from eventlog.record import Head, Record

PAGE = 1000


class CutOffReader(SqliteReader):
    """A log that ends for its reader with the last row before the damage at its end; ``damage`` is
    what lies behind that row. Slower than a whole one where its last rows are looked for."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.damage = LogDamaged(str(path), 0, "file: its last row cannot be read")
        self._end = Head()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Raises LogDamaged if the first row cannot be read, else as SqliteReader."""
        reader = cls(path)
        try:
            reader._find_end()
        except BaseException:
            reader.close()
            raise
        return reader

    def _find_end(self) -> None:
        """By halving: what was written first lies before what was cut off."""
        begun = super().read(0, 1)
        if not begun:
            raise self.damage
        whole = begun[0]
        low, high = whole.seq, 2 * whole.seq
        while (row := self._row(high)) is not None:
            whole, low, high = row, high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            row = self._row(middle)
            if row is None:
                high = middle
            else:
                whole, low = row, middle
        # Of a page that was cut in two, rows that stand first in it are lost and later ones not.
        # And one that a scan finds may be where no search for it looks.
        near = super().read(max(0, whole.seq - PAGE), PAGE)
        whole = next((row for row in reversed(near) if self._row(row.seq) is not None), whole)
        self._row(whole.seq + 1)
        self._end = Head(whole.seq, whole.chain)

    def _row(self, seq: int) -> Record | None:
        try:
            rows = super().read(seq - 1, 1)
        except LogDamaged as damage:
            self.damage = damage
            return None
        return rows[0] if rows and rows[0].seq == seq else None

    def head(self) -> Head:
        return self._end

    def read(self, after: int = 0, limit: int = 1000) -> list[Record]:
        limit = min(limit, self._end.seq - after)
        return super().read(after, limit) if limit > 0 else []

    def read_bare(self, after: int, limit: int = 1000) -> list[tuple[Any, ...]]:
        return super().read_bare(after, limit) if after + limit <= self._end.seq else []

    def read_even(self, stream: str, version: int, after: int, limit: int) -> list[tuple[Any, ...]]:
        if after + limit > self._end.seq:
            return []
        return super().read_even(stream, version, after, limit)

    def read_stream(self, stream: str, after: int = 0, limit: int = 1000) -> list[Record]:
        try:
            rows = super().read_stream(stream, after, limit)
        except LogDamaged:
            rows = self._walk(0, limit, lambda row: row.stream == stream and row.version > after)
        return [row for row in rows if row.seq <= self._end.seq]

    def search(
        self, kinds: Sequence[str], texts: Sequence[str], after: int, until: int, limit: int = 1000
    ) -> list[Record]:
        try:
            rows = super().search(kinds, texts, after, until, limit)
        except LogDamaged:
            told = [text.encode() for text in texts]
            rows = self._walk(
                after,
                limit,
                lambda row: row.kind in kinds and any(text in row.body for text in told),
            )
        return [row for row in rows if row.seq <= min(until, self._end.seq)]

    def _walk(self, after: int, limit: int, wanted: Callable[[Record], bool]) -> list[Record]:
        found: list[Record] = []
        while len(found) < limit and (page := self.read(after, PAGE)):
            found += filter(wanted, page)
            after = page[-1].seq
        return found[:limit]

    def last_until(self, at_ms: int) -> int:
        low, high = 0, self._end.seq
        while low < high:
            middle = (low + high + 1) // 2
            if self.read(middle - 1, 1)[0].at_ms <= at_ms:
                low = middle
            else:
                high = middle - 1
        return low

    def stream_version(self, stream: str) -> int:
        begin = self._end.seq
        while begin > 0:
            begin = max(0, begin - PAGE)
            found = [row.version for row in self.read(begin, PAGE) if row.stream == stream]
            if found:
                return found[-1]
        return 0
