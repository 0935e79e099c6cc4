"""Rows without what only their chain needs, for whoever folds them."""

from collections.abc import Sequence

from eventlog.reading import SqliteReader
from eventlog.store import LogReader

Bare = tuple[int, str, int, str, int, int, str | bytes]
"""A row's seq, stream, version, kind, schema, at_ms and body."""


def read_bare(reader: LogReader, after: int, limit: int) -> Sequence[Bare]:
    """As ``reader.read``: where it can, in a third of the time, and then the bodies are text.

    Raises what the reader raises.
    """
    if isinstance(reader, SqliteReader) and (rows := reader.read_bare(after, limit)):
        return rows
    return [
        (row.seq, row.stream, row.version, row.kind, row.schema, row.at_ms, row.body)
        for row in reader.read(after, limit)
    ]
