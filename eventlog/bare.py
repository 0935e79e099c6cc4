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

    def record(self, at: int) -> Record:
        """The row at a place among ``rows``, without its ``seen`` and ``chain``."""
        kind, schema, at_ms, body = self.rows[at]
        seq, version = self.seq + at, self.version + at
        return Record(seq, self.stream, version, kind, schema, at_ms, 0, body, b"")


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
    """The ``limit`` rows behind row ``after``, in two thirds of the time of ``read_bare``, fewer
    where a segment ends; None where they do not follow each other in one stream, or ``read`` is to
    be asked.

    Raises StoreFailed, StoreClosed.
    """
    first = reader.read_bare(after, 1)
    if not first:
        return None
    _, stream, version, *_ = first[0]
    rows = reader.read_even(stream, version - 1, after, limit)
    return Even(stream, after + 1, version, rows) if rows else None


def quick_pages(reader: LogReader, after: int, limit: int) -> list[Even]:
    """The rows that follow row ``after``, ``limit`` at most, in the quickest way that can read
    them; empty where ``read`` is to be asked. Raises StoreFailed, StoreClosed."""
    if not isinstance(reader, SqliteReader):
        return []
    page = read_even(reader, after, limit)
    return list(even(reader.read_bare(after, limit))) if page is None else [page]


def even_pages(reader: LogReader, after: int, limit: int) -> list[Even]:
    """The rows that follow row ``after``, ``limit`` at most; empty at the end of the log. Raises
    what the reader raises."""
    return quick_pages(reader, after, limit) or list(even(map(bare, reader.read(after, limit))))
