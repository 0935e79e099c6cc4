"""From a log to events and state, page by page."""

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import attrs

from eventlog.bare import Even, even_pages
from eventlog.chain import was_changed
from eventlog.errors import LogDamaged
from eventlog.record import Record
from eventlog.snapshots import Snapshots, Warn
from eventlog.store import LogReader
from eventlog.word_index import WordIndex
from trioroute.events import Event, UnreadableEvent, decode
from trioroute.events.codec import KINDS
from trioroute.projections import State, apply
from trioroute.projections.rows import fold_rows
from trioroute.replay.behind import behind
from trioroute.replay.calendar import check_time, timely
from trioroute.row_index import searched
from trioroute.snapshot import LogFold, begin_fold, changed_words, slow_fold

PAGE = 1000
"""Rows a read; between two reads nothing of the log is held."""
FIRST_STEP, LAST_STEP = 1000, 100_000
"""Rows searched at a time: most of what is looked for after a row is near it."""

STREAM_PREFIX = "router/"

ENDINGS = ("Released", "Failed", "Orphaned")
"""The kinds that end a dispatch."""


def quoted(text: str) -> str:
    """How a text stands in a body."""
    return json.dumps(text, ensure_ascii=False)


class CannotRead(Exception):
    """The log cannot be used for this question; the text says why and what helps."""


class BadQuestion(ValueError):
    """What was asked cannot be meant; the text shows how to write it."""


class NotFound(Exception):
    """The log can be read, but what was asked for is not in it; the text gives hints."""


def router_of(stream: str) -> str:
    return stream.removeprefix(STREAM_PREFIX)


def decision_name(stream: str, number: int) -> str:
    """``r1/42``: how headers and people name a decision."""
    return f"{router_of(stream)}/{number}"


@attrs.define
class Source:
    """A log and how strictly it is read. ``skipped`` counts rows of unknown kinds (lenient),
    ``unfound`` holds the damage that kept single rows from an answer (``kept``).

    ``snapshots`` spare most of the folding, ``index`` most of the search; None: everything is
    folded from the first row, and all rows are searched. ``spared_cores`` are those that are left
    to others where several processes read. ``warn`` is told, once, that a long fold comes first.
    ``directory``: where the lock of who writes the log's end may be.
    """

    reader: LogReader
    lenient: bool = False
    snapshots: Snapshots | None = None
    index: WordIndex | None = None
    spared_cores: int = 0
    warn: Warn | None = None
    directory: Path | None = None
    skipped: dict[str, int] = attrs.field(factory=dict)
    unfound: dict[tuple[str, int, str], LogDamaged] = attrs.field(factory=dict)

    def records(self, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Rows with ``after < seq <= until`` by seq; to the end of the log without ``until``.

        Raises CannotRead at a row of a newer trioroute, unless lenient: then it is given too, and
        ``event`` answers None for it. Raises what the reader raises.
        """
        while until is None or after < until:
            page = self.reader.read(after, PAGE)
            if not page:
                return
            for record in page:
                if until is not None and record.seq > until:
                    return
                yield record
            after = page[-1].seq

    def kept(
        self, after: int, until: int, damaged: Callable[[LogDamaged], None]
    ) -> Iterator[Record]:
        """As ``records``, but goes on behind rows that are missing or cannot be read, which
        ``damaged`` is told of."""
        for page in self.kept_pages(after, until):
            if isinstance(page, list):
                yield from page
            else:
                damaged(page[0])

    def kept_pages(self, after: int, until: int) -> Iterator[list[Record] | tuple[LogDamaged, int]]:
        """The same page by page; of rows that are missing, the damage and the row behind which the
        next one is."""
        while after < until:
            try:
                page = self.reader.read(after, min(PAGE, until - after))
            except LogDamaged as error:
                after = behind(self.reader, after, until, error)
                yield error, after
                continue
            if not page:
                return
            if page[-1].seq > until:
                page = [record for record in page if record.seq <= until]
                if page:
                    yield page
                return
            yield page
            after = page[-1].seq

    def stream(self, stream: str, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Rows of one router with ``after < version <= until``, by version."""
        while until is None or after < until:
            limit = PAGE if until is None else min(PAGE, until - after)
            page = self.reader.read_stream(stream, after, limit)  # nothing behind it is needed
            if not page:
                return
            for record in page:
                if until is not None and record.version > until:
                    return
                yield record
            after = page[-1].version

    def mentioning(
        self, kinds: Collection[str], texts: Collection[str], after: int
    ) -> Iterator[Record]:
        """Rows after ``after`` of ``kinds`` with one of ``texts`` in their body; what is near is
        read first, and no more once it was found. Rows that are missing are not told."""
        end, step = self.reader.head().seq, FIRST_STEP
        while after < end:
            until = min(end, after + step)
            yield from searched(self.reader, kinds, texts, after, until)
            after, step = until, min(2 * step, LAST_STEP)

    def at(self, stream: str, version: int) -> Record | None:
        """One row by its place in its stream, None if the stream does not hold it."""
        page = self.reader.read_stream(stream, version - 1, 1) if version > 0 else []
        return page[0] if page and page[0].version == version else None

    def first_ms(self) -> int:
        """The time of the first row that can be read; 0 where there is none."""
        oldest = next(self.kept(0, self.reader.head().seq, lambda _: None), None)
        return 0 if oldest is None else oldest.at_ms

    def last(self) -> Record:
        """The last row of the log. Raises NotFound for an empty one."""
        head = self.reader.head()
        page = self.reader.read(head.seq - 1, 1) if head.seq else []
        if not page:
            raise NotFound("the log is empty: the router has not started yet")
        return page[0]

    def fold_before(self, seq: int) -> LogFold:
        """The states after some row before ``seq``, the nearest one that a snapshot was made of."""
        if self.snapshots is None:
            return LogFold()
        fold = begin_fold(self.reader, self.snapshots, until=seq - 1)
        self.tell_once(slow_fold(self.reader, self.snapshots, fold.head.seq, seq - 1))
        return fold

    def tell_once(self, text: str) -> None:
        """Warn, unless there is nothing to say or something was said before."""
        if text and self.warn is not None:
            self.warn(text)
            self.warn = None

    def past_before(self, record: Record) -> "Past":
        """The past of a row, as far as a snapshot tells it; the rest is to be folded."""
        state = self.fold_before(record.seq).states.get(record.stream)
        return Past(record.stream) if state is None else Past(record.stream, state)

    def fold_before_row(self, past: "Past", record: Record) -> None:
        """Fold all rows of a router from its ``past`` up to before ``record``, which is then its
        next row. Raises CannotRead, and what the reader raises."""
        begin = self.reader.read_stream(past.stream, past.state.position, 1)
        if begin:
            pasts = {past.stream: past}
            self.fold_rows(pasts, begin[0].seq - 1, record.seq - 1, past.stream)
        past.expect(record)

    def fold_rows(
        self, pasts: "dict[str, Past]", after: int, until: int, stream: str | None = None
    ) -> None:
        """Fold the rows with ``after < seq <= until`` into the pasts of their routers, or only
        those of one: as ``Past.fold`` of each, in less time. Raises CannotRead, and what the reader
        raises."""
        while after < until and (pages := even_pages(self.reader, after, min(PAGE, until - after))):
            for page in pages:
                after = page.seq + len(page.rows) - 1
                if page.seq <= until and stream in (None, page.stream):
                    self._fold(pasts.setdefault(page.stream, Past(page.stream)), page, until)

    def _fold(self, past: "Past", page: Even, until: int) -> None:
        if page.version != past.state.position + 1:
            raise CannotRead(past.hole(page.version))
        rows = page.rows[: until - page.seq + 1]
        while (done := past.state.position - page.version + 1) < len(rows):
            try:
                fold_rows(past.state, timely(rows[done:]))
            except UnreadableEvent:  # said properly, or passed over
                record = page.record(past.state.position - page.version + 1)
                past.fold(record, self.event(record))

    def event(self, record: Record) -> Event | None:
        """The event of a row; None for one that this release does not know (lenient only).

        Raises CannotRead.
        """
        try:
            check_time(record.at_ms)
            return decode(record.kind, record.schema, record.body)
        except UnreadableEvent as error:
            name = f"{decision_name(record.stream, record.version)} (seq {record.seq})"
            if was_changed(self.reader, record.seq):
                raise CannotRead(f"{name} cannot be read: {changed_words(error)}") from error
            known = KINDS.get(record.kind)
            if known is None or record.schema > known.schema:
                self._pass_over(record)
                return None
            raise CannotRead(f"{name} cannot be read: {error}") from error

    def _pass_over(self, record: Record) -> None:
        if not self.lenient:
            raise CannotRead(
                f"{decision_name(record.stream, record.version)} is a {record.kind} of schema "
                f"{record.schema}, written by a newer trioroute: use that release, or --lenient "
                "to pass over what this one does not know"
            )
        self.skipped[record.kind] = self.skipped.get(record.kind, 0) + 1


@attrs.define
class Past:
    """One router's state, folded from the first row of its stream, or from a snapshot."""

    stream: str
    state: State = attrs.field(factory=State)

    def fold(self, record: Record, event: Event | None) -> None:
        """Fold the next row; ``event`` None passes over a row of an unknown kind.

        Raises CannotRead where rows are missing: a state without its past would be another one.
        """
        self.expect(record)
        self.fold_next(record, event)

    def fold_next(self, record: Record, event: Event | None) -> None:
        """``fold`` of a row that was expected already."""
        if event is None:
            self.state.position = record.version
        else:
            apply(self.state, record.version, record.at_ms, event)

    def expect(self, record: Record) -> None:
        """Raise CannotRead, saying what is missing, unless ``record`` is the next row."""
        if record.version != self.state.position + 1:
            raise CannotRead(self.hole(record.version))

    def hole(self, version: int) -> str:
        """What is missing where row ``version`` comes next."""
        found = decision_name(self.stream, version)
        if self.state.position == 0:
            return (
                f"the log begins at {found}: what went before it is in an earlier segment (give "
                "the log's directory, not one file), or was retired and no snapshot tells of it"
            )
        expected = decision_name(self.stream, self.state.position + 1)
        return f"the log has a hole: {found} follows where {expected} should be"
