"""A stretch of a log as plain rows, read ahead by several processes where that is worth it.

Whoever counts the rows takes them in order and in one process, so what is found does not depend on
how many read ahead.
"""

from collections.abc import Callable, Iterator

import attrs

from eventlog.errors import LogDamaged
from eventlog.reading import SqliteReader
from eventlog.record import Record
from trioroute.replay.clock import local_iso
from trioroute.replay.plain import Bare, Run, bare, plain_runs
from trioroute.replay.processes import free_cores, in_order
from trioroute.replay.read import PAGE, NotFound, Source

PART_ROWS = 10_000
"""Rows that are read at a time, some two megabytes of them."""

WORTH_ROWS = 150_000
"""Fewer rows are read here: starting the processes takes as long."""


@attrs.frozen
class Hole:
    """Rows that are missing or cannot be read; the next that can be is behind ``beyond``."""

    damage: LogDamaged
    beyond: int


@attrs.frozen
class Part:
    """What rows after the last part up to row ``until`` are, in order."""

    until: int
    rows: list[Run | Record | Hole]


def parts(source: Source, after: int, until: int, readers: int | None = None) -> Iterator[Part]:
    """The rows with ``after < seq <= until``. ``readers``: how many processes read them, 0 for this
    one alone, None for as many as there are cores to use, where there are rows enough.

    Raises what the reader raises but LogDamaged, which is told as ``Hole``.
    """
    if readers is None:
        readers = free_cores(source) if until - after >= WORTH_ROWS else 0
    if readers:
        spans = ((begin, min(begin + PART_ROWS, until)) for begin in range(after, until, PART_ROWS))
        for part in in_order(source, read_part, spans, readers):
            yield part
            after = part.until
    while after < until:
        last = min(after + PART_ROWS, until)
        yield read_part(source, after, last)
        after = last


def rows_since(
    source: Source, since_ms: int, progress: Callable[[int, int], None] | None
) -> Iterator[Run | Record]:
    """All rows that the log has now, those from the first one of ``since_ms`` on; ``progress`` is
    told the rows done and the rows in all.

    Raises what the reader raises.
    """
    begin, end = begin_of(source, since_ms), source.reader.head().seq
    for part in parts(source, begin, end):
        for row in part.rows:
            if isinstance(row, Hole):
                raise row.damage
            yield row
        if progress is not None:
            progress(part.until - begin, end - begin)


def begin_of(source: Source, since_ms: int) -> int:
    """The row before the first one of ``since_ms`` (0: of the log). Raises NotFound if there is no
    such row, but for an empty log."""
    oldest, end = source.reader.read(0, 1), source.reader.head().seq
    begin = oldest[0].seq - 1 if oldest else end
    if since_ms:
        begin = max(begin, source.reader.last_until(since_ms - 1))
        if begin == end:
            raise NotFound(f"no event is of {local_iso(since_ms)} or later")
    return begin


def read_part(source: Source, after: int, until: int) -> Part:
    rows: list[Run | Record | Hole] = []
    whole: list[Bare] = []
    reader = source.reader if isinstance(source.reader, SqliteReader) else None
    while after < until:
        last = min(after + PAGE, until)
        if reader is not None and (page := reader.read_bare(after, last - after)):
            whole += page
        else:
            for kept in source.kept_pages(after, last):
                if isinstance(kept, list):
                    whole += map(bare, kept)
                else:
                    rows += plain_runs(whole)
                    rows.append(Hole(*kept))
                    whole = []
        after = last
    rows += plain_runs(whole)
    return Part(until, rows)
