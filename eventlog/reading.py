"""Reading a whole log: a directory of segments, or one segment's file."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from eventlog.errors import LogDamaged, LogMissing, StoreClosed, gap
from eventlog.holes import before_hole, rows_between
from eventlog.record import Head, Record
from eventlog.segments import SegmentFile, SegmentReader, list_segments
from eventlog.store import check_page

MAX_OPEN = 4
"""Connections kept open at a time; a long log has more segments than a process has descriptors."""

MAX_BEGINS = 10_000
"""First versions remembered, one for each segment and stream that was asked for."""

BARE_TYPES = (int, str, int, str, int, int, bytes)
"""Of a row that is read bare: a damaged page can hold any other, and NULL."""

_T = TypeVar("_T")


class SqliteReader:
    """A log for reading only: it takes no lock and writes nothing, so it may read a live log.

    Satisfies :class:`eventlog.store.LogReader`. A missing row is never passed over: rows before a
    hole are given, then LogDamaged is raised. A log whose oldest segments were retired begins where
    the oldest kept one begins.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: dict[Path, SegmentReader] = {}
        self._begins: dict[tuple[Path, str], int] = {}
        self._closed = False
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path) -> "SqliteReader":
        """Open a log directory or one segment's file.

        Raises LogMissing, NewerLog, LogDamaged, StoreFailed.
        """
        reader = cls(path)
        with reader._lock:
            files = reader._files()
            if not files:
                raise LogMissing(path)
            reader._segment(files[-1])
        return reader

    @property
    def path(self) -> Path:
        """What was opened: a directory or a file."""
        return self._path

    def read(self, after: int = 0, limit: int = 1000) -> list[Record]:
        """See :class:`eventlog.store.LogReader`; raises LogDamaged, StoreFailed, StoreClosed."""
        check_page(after, limit)
        with self._lock:
            return self._again_if_retired(lambda: self._read(after, limit))

    def _read(self, after: int, limit: int) -> list[Record]:
        rows: list[Record] = []
        files = self._files()
        start = max((i for i, file in enumerate(files) if file.first <= after + 1), default=0)
        next_seq = after + 1
        for place, file in enumerate(files[start:], start):
            try:
                page = self._segment(file).read(max(after, next_seq - 1), limit - len(rows))
            except LogDamaged:
                if rows:  # of the segment before: given first
                    return rows
                raise
            if page and place == 0 and next_seq < max(file.first, 1):
                next_seq = file.first  # older segments were retired
            if page and place == 0 and file.first == 0 and after == 0:
                next_seq = page[0].seq  # a file by itself begins where it begins
            whole = before_hole([row.seq for row in page], next_seq)
            rows += page[:whole]
            if whole < len(page):
                if not rows:
                    raise gap(str(file.path), next_seq, page[0].seq)
                return rows
            next_seq += whole
            if len(rows) == limit:
                break
        return rows

    def read_bare(self, after: int, limit: int = 1000) -> list[tuple[Any, ...]]:
        """As ``read``, in a third of the time, for who needs neither ``seen`` nor ``chain``: each
        row as seq, stream, version, kind, schema, at_ms and body. Empty where ``read`` is to be
        asked: for a page that is damaged, has a hole, or is not of one segment. Raises StoreFailed,
        StoreClosed."""
        rows = self._in_one(after, limit, lambda segment: segment.read_bare(after, limit))
        whole = len(rows) == limit and rows[0][0] == after + 1 and rows[-1][0] == after + limit
        return rows if whole and all(tuple(map(type, row)) == BARE_TYPES for row in rows) else []

    def read_even(self, stream: str, version: int, after: int, limit: int) -> list[tuple[Any, ...]]:
        """As ``read_bare`` where the rows are those behind ``version`` in ``stream``, else empty:
        each row as kind, schema, at_ms and body. Fewer than ``limit`` where a segment ends."""
        return self._in_one(after, limit, lambda one: one.read_even(stream, version, after, limit))

    def _in_one(
        self, after: int, limit: int, read: Callable[[SegmentReader], list[_T]]
    ) -> list[_T]:
        def found() -> list[_T]:
            files = [file for file in self._files() if file.first <= after + 1]
            return read(self._segment(files[-1])) if files else []

        check_page(after, limit)
        with self._lock, suppress(LogDamaged):
            return self._again_if_retired(found)
        return []

    def read_stream(self, stream: str, after: int = 0, limit: int = 1000) -> list[Record]:
        """See :class:`eventlog.store.LogReader`; raises LogDamaged, StoreFailed, StoreClosed."""
        check_page(after, limit)
        with self._lock:
            rows = self._again_if_retired(lambda: self._read_stream(stream, after, limit))
            if not rows:
                return rows
            first = after + 1 if after else rows[0].version
            if rows[0].version > first and self._again_if_retired(
                lambda: self._begins_with(rows[0])
            ):
                first = rows[0].version
        whole = before_hole([row.version for row in rows], first)
        if not whole:
            raise LogDamaged(
                str(self._path), rows[0].seq, f"gap: version {first} of {stream!r} is missing"
            )
        return rows[:whole]

    def _read_stream(self, stream: str, after: int, limit: int) -> list[Record]:
        rows: list[Record] = []
        for file in self._files_from(stream, after):
            rows += self._segment(file).read_stream(stream, after, limit - len(rows))
            if len(rows) == limit:
                break
        return rows

    def _begins_with(self, row: Record) -> bool:
        """Whether older segments were retired, and ``row`` is the first kept one of its stream."""
        retired = any(oldest.seq > 1 for oldest in self._read(0, 1))
        return retired and self._read_stream(row.stream, 0, 1) == [row]

    def head(self) -> Head:
        """See :class:`eventlog.store.LogReader`; raises LogDamaged, StoreFailed, StoreClosed."""
        with self._lock:
            return self._again_if_retired(self._head)

    def _head(self) -> Head:
        for file in reversed(self._files()):
            if (head := self._segment(file).head()) is not None:
                return head
        return Head()

    def missing(self) -> list[tuple[int, int]]:
        """Rows of whole segments that are not there, between those that are: first and last seq.
        Rows that miss inside a segment are counted by ``lacking``. Raises as ``head``."""
        with self._lock:
            return self._again_if_retired(
                lambda: rows_between(self._files(), lambda file: self._segment(file).head())
            )

    def lacking(self, after: int = 0, until: int | None = None) -> list[tuple[Path, int]]:
        """Segments inside which rows are missing, each with how many; reading them tells which.
        Only of those that may hold rows with ``after < seq <= until``. Raises as ``head``."""
        with self._lock:
            return self._again_if_retired(lambda: self._lacking(after, until))

    def _lacking(self, after: int, until: int | None) -> list[tuple[Path, int]]:
        files = [one for one in self._behind(after) if until is None or one.first <= until]
        found = [(file.path, self._segment(file).lacking(file.first)) for file in files]
        return [(path, count) for path, count in found if count > 0]

    def last_until(self, at_ms: int) -> int:
        """See :class:`eventlog.store.LogReader`: the newest segment that begins no later is looked
        at. Raises LogDamaged, StoreFailed, StoreClosed."""
        with self._lock:
            return self._again_if_retired(lambda: self._last_until(at_ms))

    def _last_until(self, at_ms: int) -> int:
        for file in reversed(self._files()):
            if seq := self._segment(file).last_until(at_ms):
                return seq
        return 0

    def search(
        self, kinds: Sequence[str], texts: Sequence[str], after: int, until: int, limit: int = 1000
    ) -> list[Record]:
        """See :class:`eventlog.store.LogReader`; raises LogDamaged, StoreFailed, StoreClosed."""
        check_page(after, limit)
        with self._lock:
            return self._again_if_retired(lambda: self._search(kinds, texts, after, until, limit))

    def _search(
        self, kinds: Sequence[str], texts: Sequence[str], after: int, until: int, limit: int
    ) -> list[Record]:
        rows: list[Record] = []
        for file in self._behind(after):
            if file.first > until or len(rows) == limit:
                break
            segment = self._segment(file)
            rows += segment.search(kinds, texts, after, until, limit - len(rows))
        return rows

    def stream_version(self, stream: str) -> int:
        """See :class:`eventlog.store.LogReader`; raises LogDamaged, StoreFailed, StoreClosed."""
        with self._lock:
            return self._again_if_retired(lambda: self._stream_version(stream))

    def _stream_version(self, stream: str) -> int:
        for file in reversed(self._files()):
            if (version := self._segment(file).last_version(stream)) is not None:
                return version
        return 0

    def let_go(self, file: SegmentFile | None = None) -> None:
        """Close the connection to one segment, or to all; reading opens them anew."""
        with self._lock:
            for path in list(self._open) if file is None else [file.path]:
                self._close_segment(path)

    def close(self) -> None:
        """Close every file. May be called again."""
        self._closed = True
        self.let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _again_if_retired(self, look: Callable[[], _T]) -> _T:
        """Look once more if a segment was unlinked between listing and opening it."""
        try:
            return look()
        except LogMissing:
            if not self._path.is_dir():
                raise
            return look()

    def _close_segment(self, path: Path) -> None:
        segment = self._open.pop(path, None)
        if segment is not None:
            segment.close()

    def _files(self) -> Sequence[SegmentFile]:
        if self._closed:
            raise StoreClosed(f"the log {self._path}")
        if self._path.is_dir():
            files = list_segments(self._path)
            kept = {file.path for file in files}
            for path in [path for path in self._open if path not in kept]:
                self._close_segment(path)  # or an unlinked file would keep its room on the disk
            return files
        return (SegmentFile(0, self._path),)

    def _behind(self, after: int) -> Sequence[SegmentFile]:
        files = self._files()
        return files[max((i for i, one in enumerate(files) if one.first <= after + 1), default=0) :]

    def _files_from(self, stream: str, after: int) -> Sequence[SegmentFile]:
        """The segments from the one that holds version ``after + 1`` of ``stream``."""
        files = self._files()
        for place in range(len(files) - 1, 0, -1):
            begins = self._begin_of(stream, files[place], last=place == len(files) - 1)
            if begins and begins <= after + 1:
                return files[place:]
        return files

    def _begin_of(self, stream: str, file: SegmentFile, *, last: bool) -> int:
        """The first version of ``stream`` in a segment, 0 for none; looked up once if it stands."""
        key = (file.path, stream)
        known = self._begins.get(key)
        if known is not None:
            return known
        begins = self._segment(file).first_version(stream) or 0
        if begins or not last:
            if len(self._begins) >= MAX_BEGINS:
                self._begins.clear()
            self._begins[key] = begins
        return begins

    def _segment(self, file: SegmentFile) -> SegmentReader:
        segment = self._open.pop(file.path, None)
        if segment is None:
            segment = SegmentReader.open(file.path)
            if len(self._open) >= MAX_OPEN:
                self._close_segment(next(iter(self._open)))
        self._open[file.path] = segment  # last in the dict = used last
        return segment
