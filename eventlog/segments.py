"""The files of a log directory, ``log-<first seq>.sqlite``, and reading one of them.

A read is one statement fetched to its end, so nothing stays open between pages and no reader ever
pins the write-ahead log.
"""

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from eventlog.chain import is_chain
from eventlog.errors import LogDamaged, LogMissing
from eventlog.record import Head, Record
from eventlog.schema import check_format, log_error
from eventlog.sqlite_opening import Opened, is_complete, is_torn, open_to_read
from eventlog.streams import StreamSearch

_name = re.compile(r"log-([1-9][0-9]*)\.sqlite\Z")

# CAST gives the bytes as they are stored, without decoding and encoding them again.
_COLUMNS = "seq, stream, version, kind, schema, at_ms, seen, CAST(body AS BLOB), chain"
READ = f"SELECT {_COLUMNS} FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
READ_BARE = (
    "SELECT seq, stream, version, kind, schema, at_ms, CAST(body AS BLOB) FROM events"
    " WHERE seq > ? ORDER BY seq LIMIT ?"
)
# Each column is a good part of what a row costs: what is known before is not asked for. The last
# line leaves out what damage made of another type, as SQLite orders NULL, numbers, text, blobs.
READ_EVEN = (
    "SELECT kind, schema, at_ms, CAST(body AS BLOB) FROM events"
    " WHERE seq > ? AND seq <= ? AND +stream = ? AND version - seq = ?"
    " AND kind > '' AND schema < 1 << 62 AND at_ms < 1 << 62 AND body > '' ORDER BY seq"
)
# The + keeps SQLite from an index that segments once had: it would sort all rows of the stream.
READ_STREAM = f"SELECT {_COLUMNS} FROM events WHERE seq >= ? AND +stream = ? ORDER BY seq LIMIT ?"

HEAD = "SELECT seq, chain FROM events ORDER BY seq DESC LIMIT 1"
FIRST_AT = "SELECT at_ms FROM events ORDER BY seq LIMIT 1"
TIMES = (
    "SELECT (SELECT at_ms FROM events ORDER BY seq LIMIT 1),"
    " (SELECT at_ms FROM events ORDER BY seq DESC LIMIT 1)"
)
COUNT = "SELECT count(*), (SELECT min(seq) FROM events), (SELECT max(seq) FROM events) FROM events"
LAST_UNTIL = "SELECT seq FROM events WHERE at_ms <= ? ORDER BY seq DESC LIMIT 1"


def search_sql(kinds: int, texts: int) -> str:
    """Looks for texts in the bodies of rows of some kinds: SQLite does it eight times as fast as a
    loop over rows."""
    texts_sql = " OR ".join(["instr(body, ?)"] * texts)
    return (
        f"SELECT {_COLUMNS} FROM events WHERE seq > ? AND seq <= ?"
        f" AND kind IN ({', '.join('?' * kinds)}) AND ({texts_sql}) ORDER BY seq LIMIT ?"
    )


@attrs.frozen
class SegmentFile:
    """One file of a log; ``first`` is its first row's seq (0 = a file given by its own name)."""

    first: int
    path: Path


def list_segments(directory: Path) -> list[SegmentFile]:
    """The segments of a log directory in order; empty if there are none."""
    found = [
        SegmentFile(int(match[1]), directory / name)
        for name in os.listdir(directory)  # noqa: PTH208  # a third of the time of Path.iterdir
        if (match := _name.match(name))
    ]
    return sorted(found, key=lambda segment: segment.first)


def segment_file(directory: Path, first: int) -> SegmentFile:
    """The segment of ``directory`` that begins at seq ``first``."""
    return SegmentFile(first, directory / f"log-{first}.sqlite")


class SegmentReader:
    """A read-only connection to one segment, also while another process writes to it."""

    def __init__(self, path: Path, opened: Opened) -> None:
        self._path = path
        self._opened = opened
        self._streams = StreamSearch(self._query, str(path))

    @classmethod
    def open(cls, path: Path) -> "SegmentReader":
        """Raises LogMissing, NewerLog, LogDamaged, StoreFailed."""
        return cls(path, _open(path))

    def _query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        with sqlite_errors(self._path):
            try:
                rows = self._ask(sql, parameters)
            except sqlite3.Error:
                if not self._opened.outdated(self._path):
                    raise
            else:
                if not self._opened.outdated(self._path):
                    return rows
            self._opened.connection.close()
            self._opened = _open(self._path)  # a writer came while it was read as a file at rest
            return self._ask(sql, parameters)

    def _ask(self, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        connection = self._opened.connection
        if not self._opened.has_table:
            if not check_format(connection, self._path):
                return []
            self._opened = attrs.evolve(self._opened, has_table=True)
        return connection.execute(sql, parameters).fetchall()

    def read(self, after: int, limit: int) -> list[Record]:
        """Rows with ``seq > after``; those before damage are given before it is raised."""
        try:
            return [Record(*row) for row in self._query(READ, after, limit)]
        except LogDamaged as damage:
            if limit == 1:
                raise LogDamaged(str(self._path), after + 1, damage.reason) from damage
            return self._before_damage(after, limit)

    def read_bare(self, after: int, limit: int) -> list[tuple[Any, ...]]:
        """As ``read``, without ``seen`` and ``chain``."""
        return self._query(READ_BARE, after, limit)

    def read_even(self, stream: str, version: int, after: int, limit: int) -> list[tuple[Any, ...]]:
        """The rows with ``after < seq <= after + limit`` that there are, each as kind, schema,
        at_ms and body; none unless all are in their place where row ``after`` is ``version`` of
        ``stream``."""
        rows = self._query(READ_EVEN, after, after + limit, stream, version - after)
        if len(rows) < limit:
            head = self.head()
            if head is None or head.seq - after != len(rows):
                return []
        return rows

    def _before_damage(self, after: int, limit: int) -> list[Record]:
        """What can be read of a page that cannot be read as a whole, half as many at a time.

        Raises LogDamaged if that is nothing.
        """
        rows: list[Record] = []
        while limit > 1:
            limit = (limit + 1) // 2
            try:
                page = self._query(READ, rows[-1].seq if rows else after, limit)
            except LogDamaged as damage:
                reason = damage.reason
                continue
            rows += [Record(*row) for row in page]
        if not rows:
            raise LogDamaged(str(self._path), after + 1, reason)
        return rows

    def read_stream(self, stream: str, after: int, limit: int) -> list[Record]:
        """Rows of ``stream`` with ``version > after``; as ``read``, those before damage first."""
        begin = self._streams.next_of(stream, after)
        if begin is None:
            return []
        while True:
            try:
                rows = self._query(READ_STREAM, begin.seq, stream, limit)
                return [Record(*row) for row in rows]
            except LogDamaged:
                if limit == 1:
                    raise
            limit = (limit + 1) // 2

    def search(
        self, kinds: Sequence[str], texts: Sequence[str], after: int, until: int, limit: int
    ) -> list[Record]:
        """Rows with ``after < seq <= until`` of such a kind, with one of ``texts`` in them."""
        sql = search_sql(len(kinds), len(texts))
        rows = self._query(sql, after, until, *kinds, *texts, limit)
        return [Record(*row) for row in rows]

    def head(self) -> Head | None:
        """The last row, None if the segment is empty. Raises LogDamaged for what is no row: a
        damaged page can lead anywhere, and row 0 would be an empty log."""
        rows = self._query(HEAD)
        if rows and not (rows[0][0] > 0 and is_chain(rows[0][1])):
            raise LogDamaged(str(self._path), 0, "file: its last row cannot be read")
        return Head(*rows[0]) if rows else None

    def times(self) -> tuple[int | None, int | None]:
        """The times of the first and the last row, None while there is none."""
        rows = self._query(TIMES)
        return (rows[0][0], rows[0][1]) if rows else (None, None)

    def last_until(self, at_ms: int) -> int:
        """The last row not later than ``at_ms``, 0 if there is none or the first one is later."""
        first = self._query(FIRST_AT)
        if not first or first[0][0] > at_ms:
            return 0
        rows = self._query(LAST_UNTIL, at_ms)
        return int(rows[0][0]) if rows else 0

    def first_version(self, stream: str) -> int | None:
        """The first version of ``stream`` in this segment, None if it has no row here."""
        spot = self._streams.next_of(stream, 0)
        return None if spot is None else spot.version

    def last_version(self, stream: str) -> int | None:
        """The last version of ``stream`` in this segment, None if it has no row here."""
        spot = self._streams.last_of(stream)
        return None if spot is None else spot.version

    def lacking(self, first: int) -> int:
        """How many rows are missing between ``first`` (0: the first there is) and the last one.
        Counts the cells of pages and looks at no row: some 80 ms of CPU a million."""
        rows = self._query(COUNT)
        count, least, most = rows[0] if rows else (0, None, None)
        return 0 if most is None else int(most) - (first or int(least)) + 1 - int(count)

    def root(self) -> int:
        """The page at which the table begins, 0 if there is none. Raises LogDamaged."""
        rows = self._query("SELECT rootpage FROM sqlite_schema WHERE name = 'events'")
        return int(rows[0][0]) if rows else 0

    def trouble(self) -> str:
        """What SQLite finds wrong with the file as a whole, indexes too; empty if nothing.

        Reads all of it, in one transaction.
        """
        if is_complete(self._path) and is_torn(self._path):
            return "the file is shorter than its header says"
        try:
            told = self._query("PRAGMA quick_check(1)")
        except LogDamaged as damage:
            return damage.reason
        return "" if not told or told[0][0] == "ok" else str(told[0][0]).splitlines()[-1]

    def close(self) -> None:
        """Close the connection."""
        self._opened.connection.close()


def _open(path: Path) -> Opened:
    if not path.is_file():
        raise LogMissing(path)
    with sqlite_errors(path):
        try:
            return open_to_read(path)
        except (FileNotFoundError, sqlite3.OperationalError) as exc:
            if path.exists():
                raise
            raise LogMissing(path) from exc  # retired just now


def has_wal(path: Path) -> bool:
    """Whether SQLite keeps a write-ahead log beside the file, empty or not."""
    return path.with_name(path.name + "-wal").exists()


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about ``path`` into LogDamaged or StoreFailed."""
    try:
        yield
    except sqlite3.Error as exc:
        raise log_error(exc, path) from exc
    except UnicodeDecodeError as exc:  # SQLite's own words quote what it found
        raise LogDamaged(str(path), 0, f"file: it holds text that is no UTF-8 ({exc})") from exc
