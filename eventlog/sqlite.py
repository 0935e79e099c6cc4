"""A log in SQLite: one writer per directory, any number of readers."""

import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from eventlog.chain import check_entries
from eventlog.errors import (
    LogDamaged,
    LogError,
    LogMissing,
    StoreClosed,
    StoreFailed,
    VersionConflict,
)
from eventlog.ownership import Ownership
from eventlog.reading import SqliteReader
from eventlog.record import Appended, Entry, Head, same_entries
from eventlog.record import Record as Record
from eventlog.segments import SegmentFile, list_segments, segment_file, sqlite_errors
from eventlog.sqlite_segment import SegmentWriter, Sync, make_segment, remove_file, seal
from eventlog.unwritten import Unwritten

__all__ = ["SegmentLimits", "SqliteReader", "SqliteStore", "Sync"]

ROLL_RETRY_S = 1.0
"""A new segment that could not be made is tried again after this; the old one goes on."""


@attrs.frozen
class SegmentLimits:
    """When a segment is closed: at this size of its file, or once its first row is this old.

    0: never. Age is counted on the clock of the entries, forwards or backwards, so a clock that
    was stepped does not keep a segment open for long. A segment goes beyond them by one append.
    """

    size_bytes: int = 0
    age_ms: int = 0


class SqliteStore:
    """The writer of a log directory; satisfies :class:`eventlog.store.Store`.

    Durable (E5) means after power loss with ``sync="full"`` (one fsync per append) and after a
    crash of this process with ``sync="normal"``. The place after the last successful append is
    remembered and used if the next one continues there; its unique seq refuses it if it is no
    longer the end. After any failure the file itself is asked.

    At its limits the segment is closed and the next one begun, within ``append``. The next one is
    made before the old one is closed, so that a crash leaves both or the old one alone.
    """

    def __init__(
        self,
        directory: Path,
        segment: SegmentWriter,
        ownership: Ownership,
        reader: SqliteReader,
        options: "_Options",
    ) -> None:
        self.last_head = reader.head()
        """The head after the last append of this store, without a look at the disk; any thread may
        read it."""
        self.closed_head = _head_before(reader, segment.file)
        """The head of the last closed segment, None while there is none or it was retired."""
        self.lost_tail = segment.lost_tail
        """Commits that were found in the log but could not be read when it was opened, if any."""
        self.limits = options.limits
        """In force from the next append on; may be replaced at any time, from any thread."""
        self._directory = directory
        self._segment: SegmentWriter | None = segment
        self._ownership = ownership
        self._opened_at = self.last_head.seq
        self.unwritten: Unwritten | None = None
        """What could not be written of this run: ``close`` leaves word of it for the next."""
        self._reader = reader
        self._options = options
        self._lock = threading.Lock()
        self._last: tuple[str, int, Head] | None = None
        self._roll_from_s = 0.0

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        sync: Sync = "full",
        create: bool = True,
        views: Mapping[str, str] | None = None,
        limits: SegmentLimits | None = None,
    ) -> "SqliteStore":
        """Take ownership of ``directory`` and open its newest segment, making both if need be.

        ``views`` are SELECTs over ``events`` for people, by name. A directory made here has mode
        0700. Raises LogOwned, NewerLog (before anything is written), LogDamaged, StoreFailed, and
        LogMissing with ``create=False``.
        """
        if directory.is_dir() and list_segments(directory):
            SqliteReader.open(directory).close()  # refuses a newer or foreign file untouched
        elif not create:
            raise LogMissing(directory)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        options = _Options(sync, views or {}, limits or SegmentLimits())
        ownership = Ownership.take(directory)
        try:
            segment = _newest(directory, options)
            try:
                reader = SqliteReader.open(directory)
                return cls(directory, segment, ownership, reader, options)
            except BaseException:
                segment.close()
                raise
        except BaseException:
            ownership.release()
            raise

    def append(self, stream: str, entries: Sequence[Entry], expected: int) -> Appended:
        """See :class:`eventlog.store.Store`. One transaction, one fsync with ``sync="full"``."""
        check_entries(stream, entries, expected)
        with self._lock:
            segment = self._writer()
            segment.check_in_place()
            last, self._last = self._last, None  # only a successful append remembers
            with sqlite_errors(segment.file.path):
                if self._is_full(segment, entries[0].at_ms):
                    segment = self._roll(segment)
            with sqlite_errors(segment.file.path):
                if last is not None and last[:2] == (stream, expected):
                    try:
                        return self._insert(segment, last[2], stream, entries, expected)
                    except sqlite3.IntegrityError:
                        pass  # somebody else has written: look
                actual = self._look_and_insert(segment, stream, entries, expected)
            if isinstance(actual, Appended):
                return actual
        there: list[Record] = []
        if expected < actual:
            there = self._reader.read_stream(stream, expected, len(entries))
        if same_entries(there, entries):
            return Appended(there[0].seq, there[-1].seq, already=True)
        raise VersionConflict(stream, expected, actual)

    def _is_full(self, segment: SegmentWriter, at_ms: int) -> bool:
        limits, first_at_ms = self.limits, segment.first_at_ms
        if first_at_ms is None:
            return False
        old = 0 < limits.age_ms <= abs(at_ms - first_at_ms)
        return old or (limits.size_bytes > 0 and segment.has_reached(limits.size_bytes))

    def _roll(self, segment: SegmentWriter) -> SegmentWriter:
        """Close ``segment`` and begin the next; it goes on as it is if that cannot be made now."""
        head = segment.head()
        if head is None or time.monotonic() < self._roll_from_s:
            return segment
        segment.fold_back()  # else, with sync="normal", power loss could take rows before the next
        file = segment_file(self._directory, head.seq + 1)
        try:
            make_segment(file, self._options.views)
            following = SegmentWriter.open(file, self._options.sync, self._options.views)
        except (LogError, OSError):
            _take_back(file)
            self._roll_from_s = time.monotonic() + ROLL_RETRY_S
            return segment
        self._segment, self.closed_head = following, head
        self._reader.let_go(segment.file)
        segment.close()
        seal(segment.file.path)
        return following

    def _look_and_insert(
        self, segment: SegmentWriter, stream: str, entries: Sequence[Entry], expected: int
    ) -> Appended | int:
        """Append if ``expected`` is right, else give the actual version."""
        # The head first: rows that somebody else adds after this look are refused by their seq.
        head = segment.head() or self._reader.head()
        actual = segment.version(stream)
        if actual is None:
            actual = self._reader.stream_version(stream)  # an older segment's, which is closed
        if actual != expected:
            return actual
        return self._insert(segment, head, stream, entries, expected)

    def _insert(
        self,
        segment: SegmentWriter,
        head: Head,
        stream: str,
        entries: Sequence[Entry],
        expected: int,
    ) -> Appended:
        after = segment.insert(head, stream, entries, expected)
        self._last = (stream, expected + len(entries), after)
        self.last_head = after
        return Appended(head.seq + 1, after.seq)

    def read(self, after: int = 0, limit: int = 1000) -> list[Record]:
        """See :class:`eventlog.store.LogReader`; it sees commits only."""
        return self._reader.read(after, limit)

    def read_stream(self, stream: str, after: int = 0, limit: int = 1000) -> list[Record]:
        """See :class:`eventlog.store.LogReader`."""
        return self._reader.read_stream(stream, after, limit)

    def head(self) -> Head:
        """See :class:`eventlog.store.LogReader`."""
        return self._reader.head()

    def last_until(self, at_ms: int) -> int:
        """See :class:`eventlog.store.LogReader`."""
        return self._reader.last_until(at_ms)

    def search(
        self, kinds: Sequence[str], texts: Sequence[str], after: int, until: int, limit: int = 1000
    ) -> list[Record]:
        """See :class:`eventlog.store.LogReader`."""
        return self._reader.search(kinds, texts, after, until, limit)

    def stream_version(self, stream: str) -> int:
        """See :class:`eventlog.store.LogReader`."""
        return self._reader.stream_version(stream)

    def close(self) -> None:
        """Fold the write-ahead log into the file and give the directory up. May be called again."""
        with self._lock:
            segment, self._segment = self._segment, None
            if segment is None:
                return
            self._reader.close()
            try:
                segment.close()
            finally:
                if self.last_head.seq > self._opened_at:
                    self._ownership.word = self.unwritten
                elif self.unwritten is not None:
                    self._ownership.word = self.unwritten.behind(self._ownership.word)
                self._ownership.release()

    @property
    def unwritten_before(self) -> Unwritten | None:
        """What the run before could not write at its end. Left there until a run wrote a row."""
        return self._ownership.word

    def _writer(self) -> SegmentWriter:
        if self._segment is None:
            raise StoreClosed(f"the log {self._directory}")
        return self._segment


@attrs.frozen
class _Options:
    sync: Sync
    views: Mapping[str, str]
    limits: SegmentLimits


def _newest(directory: Path, options: _Options) -> SegmentWriter:
    """The segment that is written on, after a crash at any point of a roll too."""
    files = list_segments(directory)
    for file in files[:-1]:
        seal(file.path)
    if len(files) > 1:
        with SqliteReader.open(directory) as reader:
            head = reader.head()
        if head.seq + 1 < files[-1].first:
            remove_file(files.pop().path)  # blank, and made for rows that were never written
    if not files:
        files.append(segment_file(directory, 1))
        make_segment(files[0], options.views)
    return SegmentWriter.open(files[-1], options.sync, options.views)


def _head_before(reader: SqliteReader, file: SegmentFile) -> Head | None:
    """The head of the segment before ``file``, if it is there and can be read."""
    try:
        rows = reader.read(file.first - 2, 1) if file.first > 1 else []
    except LogDamaged:
        return None
    return Head(rows[0].seq, rows[0].chain) if rows and rows[0].seq == file.first - 1 else None


def _take_back(file: SegmentFile) -> None:
    """Remove a segment that could not be made: rows are looked for in the newest by name."""
    try:
        remove_file(file.path)
    except OSError as exc:
        raise StoreFailed(str(file.path), f"cannot be removed ({exc.strerror})") from exc
