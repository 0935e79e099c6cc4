"""A stretch of a log as plain rows, read ahead by several processes where that is worth it.

Whoever counts the rows takes them in order and in one process, so what is found does not depend on
how many read ahead.
"""

from collections.abc import Callable, Iterator

import attrs

from eventlog.bare import Even, bare, even, quick_pages
from eventlog.errors import LogDamaged
from eventlog.record import Record
from trioroute.replay.gather import plain_runs
from trioroute.replay.plain import Run
from trioroute.replay.processes import free_cores, in_order
from trioroute.replay.read import PAGE, Source
from trioroute.replay.within import Within

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


@attrs.define
class _Once:
    """Is done once, however often; what it raises is kept for who can tell it."""

    work: Callable[[], None]
    done: bool = False
    error: Exception | None = None

    def __call__(self) -> None:
        if not self.done:
            self.done = True
            try:
                self.work()
            except Exception as error:
                self.error = error

    def check(self) -> None:
        """It is done, or raises what it raised."""
        self()
        if self.error is not None:
            raise self.error


def parts(
    source: Source,
    after: int,
    until: int,
    readers: int | None = None,
    before: Callable[[], None] = lambda: None,
) -> Iterator[Part]:
    """The rows with ``after < seq <= until``. ``readers``: how many processes read them, 0 for this
    one alone, None for as many as there are cores to use, where there are rows enough. ``before``
    is called before the first part is given, as those processes start.

    Raises what ``before`` raises, and what the reader raises but LogDamaged, which is told as
    ``Hole``.
    """
    if readers is None:
        readers = free_cores(source) if until - after >= WORTH_ROWS else 0
    once = _Once(before)
    if readers:
        spans = ((begin, min(begin + PART_ROWS, until)) for begin in range(after, until, PART_ROWS))
        for part in in_order(source, read_part, spans, readers, once):
            once.check()
            yield part
            after = part.until
    once.check()
    while after < until:
        last = min(after + PART_ROWS, until)
        yield read_part(source, after, last)
        after = last


def rows_within(
    source: Source, within: Within, progress: Callable[[int, int], None] | None = None
) -> Iterator[Run | Record]:
    """The rows that are asked for; ``progress`` is told the rows done and the rows in all.

    Raises NotFound where there is none, and what the reader raises.
    """
    begin, end = within.rows(source)
    for part in parts(source, begin, end):
        for row in part.rows:
            if isinstance(row, Hole):
                raise row.damage
            yield row
        if progress is not None:
            progress(part.until - begin, end - begin)


def read_part(source: Source, after: int, until: int) -> Part:
    rows: list[Run | Record | Hole] = []
    whole: list[Even] = []
    while after < until:
        last = min(after + PAGE, until)
        if quick := quick_pages(source.reader, after, last - after):
            whole += quick
            last = after + sum(len(page.rows) for page in quick)
        else:
            for kept in source.kept_pages(after, last):
                if isinstance(kept, list):
                    whole += even(map(bare, kept))
                else:
                    rows += plain_runs(whole)
                    rows.append(Hole(*kept))
                    whole = []
        after = last
    rows += plain_runs(whole)
    return Part(until, rows)
