"""Writing one segment's file, and sealing it when it is closed."""

import functools
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from eventlog.chain import chain_entries
from eventlog.errors import StoreFailed
from eventlog.record import Entry, Head
from eventlog.schema import check_format
from eventlog.segments import (
    FIRST_AT,
    HEAD,
    SegmentFile,
    has_wal,
    sqlite_errors,
)
from eventlog.sqlite_migrations import prepare
from eventlog.sqlite_opening import BUSY_TIMEOUT_S
from eventlog.streams import StreamSearch
from eventlog.wal import BrokenTail, broken_behind

Sync = Literal["full", "normal"]

WAL_CHECKPOINT_BYTES = 4 << 20
WAL_KEPT_BYTES = 16 << 20
"""The write-ahead log is folded back every 4 MiB, and cut to 16 MiB after a burst."""

SEAL_TIMEOUT_S = 0.1
"""How long sealing waits for readers; what could not be sealed is tried again later."""

_WRITE_VERSION = 18
_ROLLBACK, WRITES_AHEAD = b"\x01", b"\x02"
"""Byte 18 of a SQLite file says how it is written: 1 without a write-ahead log, 2 with one."""

DRAFT = ".new"
"""Added to the name of a segment that is being made."""

ROW_BYTES, SLACK_BYTES = 150, 64 * 1024
"""What a row takes beside its body, with room; and a few pages more."""

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


class SegmentWriter:
    """The one writing connection to a segment. Methods raise sqlite3's own errors."""

    def __init__(self, file: SegmentFile, connection: sqlite3.Connection) -> None:
        self.file = file
        self._connection = connection
        self._identity: tuple[int, int] | None = None
        self.lost_tail: BrokenTail | None = None
        """What a write-ahead log held that was found when the file was opened, and could not be
        read."""
        found = connection.execute(FIRST_AT).fetchone()
        self._first_at_ms: int | None = found[0] if found else None
        self._counted_bytes = self._added_bytes = 0
        """The size when SQLite was asked last, and what rows were added since, roughly."""
        self._page_bytes: int = connection.execute("PRAGMA page_size").fetchone()[0]
        pages = WAL_CHECKPOINT_BYTES // self._page_bytes
        connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
        self.size_bytes()

    @classmethod
    def open(cls, file: SegmentFile, sync: Sync, views: Mapping[str, str]) -> "SegmentWriter":
        """Open the file. Raises NewerLog, LogDamaged, StoreFailed, ValueError (a view)."""
        with sqlite_errors(file.path):
            connection = _connect(file.path)
            try:
                full = "FULL" if sync == "full" else "NORMAL"
                connection.execute(f"PRAGMA synchronous = {full}")
                lost = _lost_tail(connection, file.path)
                prepare(connection, file.path, views)
                connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
                writer = cls(file, connection)
                writer.lost_tail = lost
                return writer
            except BaseException:
                connection.close()
                raise

    def check_in_place(self) -> None:
        """Raise StoreFailed if the file is gone: SQLite would write on where nobody finds it."""
        path = self.file.path
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

    @property
    def first_at_ms(self) -> int | None:
        """The time of the first row, None while there is none."""
        return self._first_at_ms

    def size_bytes(self) -> int:
        """The size of the file with what is in its write-ahead log."""
        pages: int = self._connection.execute("PRAGMA page_count").fetchone()[0]
        self._counted_bytes, self._added_bytes = pages * self._page_bytes, 0
        return self._counted_bytes

    def has_reached(self, size_bytes: int) -> bool:
        """Whether the file is this large. Mostly told without asking SQLite, which costs a tenth of
        a commit and lets go of Python's lock: rows cannot have taken four times their bytes."""
        most_bytes = self._counted_bytes + 4 * self._added_bytes + SLACK_BYTES
        return most_bytes >= size_bytes and self.size_bytes() >= size_bytes

    def insert(self, head: Head, stream: str, entries: Sequence[Entry], expected: int) -> Head:
        """Insert after ``head``, all or nothing; the new head.

        Raises IntegrityError if ``head`` is not the head (any more). Up to 64 rows are one INSERT,
        which is its own transaction: the driver lets go of Python's lock once. Row by row it would
        queue up for it each time behind a busy loop.
        """
        chains = chain_entries(head, stream, expected, entries)
        values: list[object] = []
        seq, version = head.seq, expected
        for entry, chain in zip(entries, chains, strict=True):
            seq += 1
            version += 1
            values += (seq, stream, version, entry.kind, entry.schema, entry.at_ms, entry.seen)
            values += (entry.body.decode(), chain)
            self._added_bytes += len(entry.body) + ROW_BYTES
        if len(entries) <= ROWS_PER_INSERT:
            self._connection.execute(_insert_sql(len(entries)), values)
        else:
            _insert_many(self._connection, values)
        if self._first_at_ms is None:
            self._first_at_ms = entries[0].at_ms
        return Head(seq, chains[-1])

    def head(self) -> Head | None:
        """The last row, None while there is none."""
        row = self._connection.execute(HEAD).fetchone()
        return Head(*row) if row else None

    def version(self, stream: str) -> int | None:
        """The last version of ``stream`` in this segment."""
        spot = StreamSearch(self._query, str(self.file.path)).last_of(stream)
        return None if spot is None else spot.version

    def _query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, parameters).fetchall()

    def fold_back(self) -> None:
        """Write what can be written of the write-ahead log into the file, and make it durable."""
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Fold the write-ahead log into the file and close it."""
        with sqlite_errors(self.file.path):
            self._connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        path,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=ROWS_PER_INSERT + 16,
    )


def _lost_tail(connection: sqlite3.Connection, path: Path) -> BrokenTail | None:
    """Fold back what a crash left of a write-ahead log, before anything is written over the rest.

    Raises NewerLog, LogDamaged before anything is written; StoreFailed.
    """
    check_format(connection, path)
    _, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    try:
        return broken_behind(path, max(frames, 0))
    except OSError as exc:
        raise StoreFailed(
            str(path), f"its write-ahead log cannot be read ({exc.strerror})"
        ) from exc


def make_segment(file: SegmentFile, views: Mapping[str, str]) -> None:
    """Make a segment without rows that appears under its name only when it is whole.

    What a crash leaves of the making is made anew. Raises StoreFailed, ValueError (a view), OSError
    where the directory cannot be written.
    """
    draft = file.path.with_name(f"{file.path.name}{DRAFT}")
    remove_file(draft)
    with sqlite_errors(draft):
        connection = _connect(draft)
        try:
            prepare(connection, draft, views)
        finally:
            connection.close()
    draft.rename(file.path)
    sync_directory(file.path.parent)


def remove_file(path: Path) -> None:
    """Unlink a database and what SQLite keeps beside it, the file first: it is what is looked for.

    Raises OSError for what is there and cannot be removed.
    """
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def is_sealed(path: Path) -> bool:
    """Whether a file is complete by itself: written to no more, not even by a reader."""
    return write_version(path) == _ROLLBACK and not has_wal(path)


def write_version(path: Path) -> bytes:
    """What a file says of how it is written to; empty for one that is too short to say."""
    with path.open("rb") as file:
        return file.read(_WRITE_VERSION + 1)[_WRITE_VERSION:]


def seal(path: Path) -> bool:
    """Make a closed segment one plain file that never changes again; false: not just now.

    Its write-ahead log is folded in and switched off, which needs a moment without readers.
    """
    if is_sealed(path):
        return True
    connection = sqlite3.connect(path, timeout=SEAL_TIMEOUT_S, isolation_level=None)
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    except sqlite3.OperationalError:
        pass  # a reader is in it
    finally:
        connection.close()
    return is_sealed(path)


def sync_directory(directory: Path) -> None:
    """Make a new file's name survive power loss: SQLite syncs contents, the name is ours."""
    for path in (directory, directory.parent):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
