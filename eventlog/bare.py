"""Rows without what only their chain needs, for whoever folds them."""

from collections.abc import Iterable, Iterator, Sequence

import attrs

from eventlog.reading import SqliteReader
from eventlog.record import Record
from eventlog.store import LogReader

Bare = tuple[int, str, int, str, int, int, bytes]
"""A row's seq, stream, version, kind, schema, at_ms and body."""


def bare(row: Record) -> Bare:
    """As ``SqliteReader.read_bare`` gives it."""
    return row.seq, row.stream, row.version, row.kind, row.schema, row.at_ms, row.body


Inner = tuple[str, int, int, bytes]
"""A row's kind, schema, at_ms and body."""


@attrs.frozen
class Even:
    """Rows that follow each other in the log and in one stream; ``seq`` and ``version`` are those
    of the first."""

    stream: str
    seq: int
    version: int
    rows: Sequence[Inner]


def even(rows: Iterable[Bare]) -> Iterator[Even]:
    """The same rows in the same order."""
    stream, begin, ahead, inner = "", 0, 0, list[Inner]()
    for seq, of, version, kind, schema, at_ms, body in rows:
        if of != stream or seq != begin + len(inner) or seq - version != ahead:
            if inner:
                yield Even(stream, begin, begin - ahead, inner)
            stream, begin, ahead, inner = of, seq, seq - version, []
        inner.append((kind, schema, at_ms, body))
    if inner:
        yield Even(stream, begin, begin - ahead, inner)


def joined(pages: Iterable[Even]) -> Iterator[Even]:
    """The same rows, those that follow each other in one."""
    last: Even | None = None
    for page in pages:
        if last is not None and _follows(page, last):
            rows = [*last.rows, *page.rows]
            last = Even(last.stream, last.seq, last.version, rows)
        else:
            if last is not None:
                yield last
            last = page
    if last is not None:
        yield last


def _follows(page: Even, last: Even) -> bool:
    behind = (last.stream, last.seq + len(last.rows), last.version + len(last.rows))
    return (page.stream, page.seq, page.version) == behind


def read_even(reader: SqliteReader, after: int, limit: int) -> Even | None:
    """The ``limit`` rows behind row ``after``, in two thirds of the time of ``read_bare``; None
    where they do not follow each other in one stream, or ``read`` is to be asked.

    Raises StoreFailed, StoreClosed.
    """
    first = reader.read_bare(after, 1)
    if not first:
        return None
    _, stream, version, *_ = first[0]
    rows = reader.read_even(stream, version - 1, after, limit)
    return Even(stream, after + 1, version, rows) if rows else None


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
