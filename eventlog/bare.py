"""Rows without what only their chain needs, for whoever folds them."""

from collections.abc import Sequence

from eventlog.reading import SqliteReader
from eventlog.record import Record
from eventlog.store import LogReader

Bare = tuple[int, str, int, str, int, int, bytes]
"""A row's seq, stream, version, kind, schema, at_ms and body."""


def bare(row: Record) -> Bare:
    """As ``SqliteReader.read_bare`` gives it."""
    return row.seq, row.stream, row.version, row.kind, row.schema, row.at_ms, row.body


Of = tuple[str | None, int, str, int, int, bytes]
"""A row's stream, None where it is the one that was asked for, version, kind, schema, at_ms and
body."""


def read_of(reader: LogReader, stream: str, after: int, limit: int) -> Sequence[Of]:
    """The rows that follow row ``after`` without a gap, for who folds ``stream``; where it can, in
    less time than ``reader.read``. Raises what the reader raises."""
    if isinstance(reader, SqliteReader) and (rows := reader.read_of(stream, after, limit)):
        return rows
    return [
        (None if r.stream == stream else r.stream, r.version, r.kind, r.schema, r.at_ms, r.body)
        for r in reader.read(after, limit)
    ]
