"""A log in SQLite: one writer per directory, any number of readers."""

import functools
import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from eventlog.chain import chain_entries, check_entries
from eventlog.errors import LogMissing, StoreClosed, StoreFailed, VersionConflict
from eventlog.ownership import Ownership
from eventlog.reading import SqliteReader
from eventlog.record import Appended, Entry, Head, Record, same_entries
from eventlog.schema import prepare
from eventlog.segments import (
    BUSY_TIMEOUT_S,
    HEAD,
    LAST_VERSION,
    SegmentFile,
    list_segments,
    segment_file,
    sqlite_errors,
)

__all__ = ["SqliteReader", "SqliteStore", "Sync"]

Sync = Literal["full", "normal"]

WAL_CHECKPOINT_PAGES = 1000
WAL_KEPT_BYTES = 16 << 20
"""The write-ahead log is folded back every 1000 pages (4 MiB), and cut to 16 MiB after a burst."""

ROWS_PER_INSERT = 64
_COLUMNS = 9


@functools.cache
def _insert_sql(rows: int) -> str:
    row = "(" + ", ".join("?" * _COLUMNS) + ")"
    return "INSERT INTO events VALUES " + ", ".join([row] * rows)


def _insert_many(connection: sqlite3.Connection, values: Sequence[object]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        step = ROWS_PER_INSERT * _COLUMNS
        for start in range(0, len(values), step):
            part = values[start : start + step]
            connection.execute(_insert_sql(len(part) // _COLUMNS), part)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.rollback()


class SqliteStore:
    """The writer of a log directory; satisfies :class:`eventlog.store.Store`.

    Durable (E5) means after power loss with ``sync="full"`` (one fsync per append) and after a
    crash of this process with ``sync="normal"``. The place after the last successful append is
    remembered and used if the next one continues there; the two unique keys refuse it if it is no
    longer the end. After any failure the file itself is asked.
    """

    def __init__(
        self,
        file: SegmentFile,
        connection: sqlite3.Connection,
        ownership: Ownership,
        reader: SqliteReader,
    ) -> None:
        self._file = file
        self._connection: sqlite3.Connection | None = connection
        self._ownership = ownership
        self._reader = reader
        self._lock = threading.Lock()
        self._last: tuple[str, int, Head] | None = None
        self._identity: tuple[int, int] | None = None

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        sync: Sync = "full",
        create: bool = True,
        views: Mapping[str, str] | None = None,
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
        ownership = Ownership.take(directory)
        try:
            files = list_segments(directory)
            file = files[-1] if files else segment_file(directory, 1)
            connection = _connect(file, sync, views or {})
            if not files:
                _sync_directory(directory)
            try:
                reader = SqliteReader.open(directory)
            except BaseException:
                connection.close()
                raise
        except BaseException:
            ownership.release()
            raise
        return cls(file, connection, ownership, reader)

    def append(self, stream: str, entries: Sequence[Entry], expected: int) -> Appended:
        """See :class:`eventlog.store.Store`. One transaction, one fsync with ``sync="full"``."""
        check_entries(stream, entries, expected)
        with self._lock:
            connection = self._writer()
            self._check_in_place()
            last, self._last = self._last, None  # only a successful append remembers
            with sqlite_errors(self._file.path):
                if last is not None and last[:2] == (stream, expected):
                    try:
                        return self._insert(connection, last[2], stream, entries, expected)
                    except sqlite3.IntegrityError:
                        pass  # somebody else has written: look
                actual = self._look_and_insert(connection, stream, entries, expected)
            if isinstance(actual, Appended):
                return actual
        there: list[Record] = []
        if expected < actual:
            there = self._reader.read_stream(stream, expected, len(entries))
        if same_entries(there, entries):
            return Appended(there[0].seq, there[-1].seq, already=True)
        raise VersionConflict(stream, expected, actual)

    def _check_in_place(self) -> None:
        """SQLite would go on writing to a file that nobody can find any more."""
        path = self._file.path
        try:
            found = path.stat()
        except OSError as exc:
            raise StoreFailed(str(path), f"the log file is gone ({exc.strerror})") from exc
        identity = (found.st_dev, found.st_ino)
        if self._identity is None:
            self._identity = identity
        elif identity != self._identity:
            raise StoreFailed(
                str(path), "the log file was replaced while it was written: put it back or restart"
            )

    def _look_and_insert(
        self, connection: sqlite3.Connection, stream: str, entries: Sequence[Entry], expected: int
    ) -> Appended | int:
        """Append if ``expected`` is right, else give the actual version."""
        actual = self._version(connection, stream)
        if actual != expected:
            return actual
        return self._insert(connection, self._head(connection), stream, entries, expected)

    def _insert(
        self,
        connection: sqlite3.Connection,
        head: Head,
        stream: str,
        entries: Sequence[Entry],
        expected: int,
    ) -> Appended:
        """Insert after ``head``, all or nothing; IntegrityError if that is not the head (any more).

        Up to 64 rows are one INSERT, which is its own transaction: the driver lets go of Python's
        lock once. Row by row it would queue up for it each time behind a busy loop.
        """
        chains = chain_entries(head, stream, expected, entries)
        values: list[object] = []
        seq, version = head.seq, expected
        for entry, chain in zip(entries, chains, strict=True):
            seq += 1
            version += 1
            values += (seq, stream, version, entry.kind, entry.schema, entry.at_ms, entry.seen)
            values += (entry.body.decode(), chain)
        if len(entries) <= ROWS_PER_INSERT:
            connection.execute(_insert_sql(len(entries)), values)
        else:
            _insert_many(connection, values)
        self._last = (stream, version, Head(seq, chains[-1]))
        return Appended(head.seq + 1, seq)

    def _head(self, connection: sqlite3.Connection) -> Head:
        row = connection.execute(HEAD).fetchone()
        return Head(*row) if row else self._reader.head()  # an older segment's, which is closed

    def _version(self, connection: sqlite3.Connection, stream: str) -> int:
        found: int | None = connection.execute(LAST_VERSION, (stream,)).fetchone()[0]
        return self._reader.stream_version(stream) if found is None else found

    def read(self, after: int = 0, limit: int = 1000) -> list[Record]:
        """See :class:`eventlog.store.LogReader`; it sees commits only."""
        return self._reader.read(after, limit)

    def read_stream(self, stream: str, after: int = 0, limit: int = 1000) -> list[Record]:
        """See :class:`eventlog.store.LogReader`."""
        return self._reader.read_stream(stream, after, limit)

    def head(self) -> Head:
        """See :class:`eventlog.store.LogReader`."""
        return self._reader.head()

    def stream_version(self, stream: str) -> int:
        """See :class:`eventlog.store.LogReader`."""
        return self._reader.stream_version(stream)

    def close(self) -> None:
        """Fold the write-ahead log into the file and give the directory up. May be called again."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is None:
                return
            self._reader.close()
            try:
                with sqlite_errors(self._file.path):
                    connection.close()
            finally:
                self._ownership.release()

    def _writer(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreClosed(f"the log {self._file.path.parent}")
        return self._connection


def _connect(file: SegmentFile, sync: Sync, views: Mapping[str, str]) -> sqlite3.Connection:
    connection = sqlite3.connect(
        file.path,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=ROWS_PER_INSERT + 16,
    )
    try:
        with sqlite_errors(file.path):
            connection.execute(f"PRAGMA synchronous = {'FULL' if sync == 'full' else 'NORMAL'}")
            prepare(connection, file.path, views)
            connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
    except BaseException:
        connection.close()
        raise
    return connection


def _sync_directory(directory: Path) -> None:
    """Make a new file's name survive power loss: SQLite syncs contents, the name is ours."""
    for path in (directory, directory.parent):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
