"""Checking every row of a log by its chain, and going on after damage: what is bad, what holds."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

from eventlog.chain import is_chain, verify_chain
from eventlog.damage import lying, place_of, place_of_damage, what_is_amiss
from eventlog.errors import LogDamaged, LogError, LogMissing, NewerLog, StoreFailed
from eventlog.pages import last_lying_row
from eventlog.record import Head, Record
from eventlog.segments import SegmentFile, SegmentReader, list_segments
from eventlog.wal import broken_tail

PAGE = 1000
BAD_MAX = 1000
"""Bad places told; a log with more is told up to there."""

SCANS_MAX = 10
"""Bad places for which a whole file is read once more, for rows that nothing leads to."""

Progress = Callable[[int, int], None]
"""Told the last row checked and the last there is."""


@attrs.frozen
class Bad:
    """A place that is not what was written: rows ``first`` to ``last`` of ``file``.

    ``offset`` is where the row's chain value lies in ``part`` (the file or its write-ahead log),
    None where it is not there. ``reason`` begins with ``chain``, ``gap``, ``order`` or ``file``.
    """

    first: int
    last: int
    file: str
    reason: str
    offset: int | None = None
    part: str = ""


@attrs.define
class Checked:
    """``holds`` are the stretches of rows that are proved to follow each other unchanged.

    ``begins_at`` is the first row kept; rows before it were retired, and whether the first one
    follows them is proved only if ``anchored``.
    """

    rows: int = 0
    begins_at: int = 1
    anchored: bool = True
    head: Head = attrs.field(factory=Head)
    bad: list[Bad] = attrs.field(factory=list)
    holds: list[tuple[int, int]] = attrs.field(factory=list)


OnRow = Callable[[Record], None]


@attrs.define
class _Walk:
    found: Checked
    on_row: OnRow
    head: Head | None = None
    opened: bool = False
    unopened: NewerLog | StoreFailed | None = None

    def take(self, page: Sequence[Record], file: SegmentFile) -> None:
        """Check a page; a bad row is told and the next is checked against what it holds."""
        rows = list(page)
        while rows:
            try:
                verify_chain(rows, self.head, where=str(file.path))
                good, rest = rows, []
            except LogDamaged as damage:
                at = next((i for i, row in enumerate(rows) if row.seq >= damage.seq), 0)
                good, rest = rows[:at], rows[at:]
                self._take_good(good)
                self._tell(damage, rest[0], file)
                if rest[0].seq == damage.seq:
                    chain = rest[0].chain
                    self.head = Head(rest[0].seq, chain) if is_chain(chain) else None
                    self.found.rows += 1
                    rest = rest[1:]
                else:
                    self.head = None  # rows are missing: what follows holds by itself
                good = []
            self._take_good(good)
            rows = rest

    def _take_good(self, rows: Sequence[Record]) -> None:
        holds = self.found.holds
        for row in rows:
            if holds and holds[-1][1] == row.seq - 1 and self.head is not None:
                holds[-1] = (holds[-1][0], row.seq)
            else:
                holds.append((row.seq, row.seq))
            self.head = Head(row.seq, row.chain)
            self.found.rows += 1
            self.on_row(row)

    def _tell(self, damage: LogDamaged, row: Record, file: SegmentFile) -> None:
        last = row.seq if damage.seq == row.seq else row.seq - 1
        part, offset = place_of(file.path, row.chain)
        reason = damage.reason
        if reason.startswith("gap") and len(self.found.bad) < SCANS_MAX:
            reason += lying(file.path, damage.seq, last, scan=True)
        self.tell(Bad(damage.seq, last, str(file.path), reason, offset, part))

    def tell_unread(
        self, file: SegmentFile, reader: SegmentReader | None, first: int, last: int, reason: str
    ) -> None:
        """Rows that SQLite cannot read: what follows them holds by itself."""
        scan = len(self.found.bad) < SCANS_MAX
        offset, told = place_of_damage(file.path, reader, first, last, reason, scan=scan)
        part = str(file.path) if offset is not None else ""
        self.tell(Bad(first, last, str(file.path), told, offset, part))
        self.head = None

    def tell(self, bad: Bad) -> None:
        if len(self.found.bad) < BAD_MAX:
            self.found.bad.append(bad)


def check_log(
    path: Path,
    *,
    start: Head | None = None,
    on_row: OnRow = lambda _: None,
    progress: Progress | None = None,
) -> Checked:
    """Check a log directory, or one segment's file, as far as it goes now. Memory stays flat.

    ``start`` is the head before the first row kept, if it is known from elsewhere. ``on_row`` is
    told of every good row in order. Raises LogMissing, StoreFailed, and NewerLog if no segment is
    of a format that is known.
    """
    files = list_segments(path) if path.is_dir() else [SegmentFile(0, path)]
    if not files or not path.exists():
        raise LogMissing(path)
    found = Checked()
    walk = _Walk(found, on_row)
    end = _end_of(files)
    first = True
    for place, file in enumerate(files):
        following = files[place + 1].first if place + 1 < len(files) else None
        for page in _pages(file, following, end, walk):
            if first:
                first = False
                found.begins_at = files[0].first or page[0].seq
                if not found.bad:  # else what comes before this page is told as lost
                    walk.head = Head() if found.begins_at == 1 else start
                    found.anchored = walk.head is not None
            walk.take(page, file)
            if progress is not None:
                progress(page[-1].seq, max(end, page[-1].seq))
    lost = None if walk.unopened is not None else broken_tail(files[-1].path)
    if lost is not None:
        after = (walk.head or Head()).seq + 1
        walk.tell(
            Bad(after, after, str(files[-1].path), f"file: {lost}", lost.offset, str(lost.part))
        )
    if walk.unopened is not None and not walk.opened:
        raise walk.unopened
    found.head = walk.head or Head()
    return found


def _end_of(files: Sequence[SegmentFile]) -> int:
    newest = files[-1]
    try:
        reader = SegmentReader.open(newest.path)
        try:
            head = reader.head()
        finally:
            reader.close()
    except (LogDamaged, NewerLog, StoreFailed):
        return max(newest.first, last_lying_row(newest.path))
    return head.seq if head is not None else newest.first - 1


def _pages(
    file: SegmentFile, following: int | None, end: int, walk: _Walk
) -> Iterator[list[Record]]:
    """The readable rows of a file; what cannot be read is told and passed over."""
    try:
        reader = SegmentReader.open(file.path)
    except (LogDamaged, NewerLog, StoreFailed) as error:
        if isinstance(error, LogDamaged):
            reason = error.reason
        else:
            walk.unopened = walk.unopened or error
            reason = f"file: {error}"
        last = following - 1 if following is not None else max(end, file.first)
        walk.tell_unread(file, None, file.first, last, reason)
        return
    walk.opened = True
    last = following - 1 if following is not None else end
    after = max(0, file.first - 1)
    told = len(walk.found.bad)
    try:
        while page := _page(reader, file, after, last, following, walk):
            yield page
            after = page[-1].seq
        reached = max([after, *(bad.last for bad in walk.found.bad[told:])])
        if following is not None and reached < last:
            _tell_missing_end(file, max(reached + 1, file.first), last, walk)
        trouble = reader.trouble() if len(walk.found.bad) == told else ""
        if trouble:
            reason, offset = what_is_amiss(file.path, reader, trouble)
            part = str(file.path) if offset is not None else ""
            last = max(after, file.first)
            walk.tell(Bad(file.first, last, str(file.path), reason, offset, part))
    finally:
        reader.close()


def _tell_missing_end(file: SegmentFile, first: int, last: int, walk: _Walk) -> None:
    reason = f"gap: {first} to {last} are missing"
    if first == file.first:
        walk.tell_unread(file, None, first, last, f"{reason}: it holds no row")
        return
    if len(walk.found.bad) < SCANS_MAX:
        reason += lying(file.path, first, last, scan=True)
    walk.tell(Bad(first, last, str(file.path), reason))
    walk.head = None


def _page(
    reader: SegmentReader,
    file: SegmentFile,
    after: int,
    last: int,
    beyond: int | None,
    walk: _Walk,
) -> list[Record]:
    """The next readable rows, one by one behind damage; empty at the end of the file. None of them
    is ``beyond``, where the next file begins."""
    limit, skipped = PAGE, 0
    while True:
        try:
            page = _forward(reader.read(after + skipped, limit), after + skipped, beyond)
        except LogDamaged as damage:
            reason = damage.reason
        else:
            if skipped:
                upto = page[0].seq - 1 if page else last
                walk.tell_unread(file, reader, after + 1, upto, reason)
            return page
        if limit > 1:
            limit = 1
        elif after + skipped >= last:
            last = max(last, after + 1)  # where the end cannot be read, it is not known
            walk.tell_unread(file, reader, after + 1, last, reason)
            return []
        else:
            skipped = skipped + 1 if skipped < PAGE else 2 * skipped


def _forward(rows: list[Record], after: int, beyond: int | None) -> list[Record]:
    """The rows as far as each comes after the one before, and is one of this file.

    Raises LogDamaged if the first does not: reading on might never end.
    """
    for place, row in enumerate(rows):
        if row.seq <= after or (beyond is not None and row.seq >= beyond):
            if not place:
                reason = f"file: row {row.seq} stands where a row after {after} should"
                raise LogDamaged("", after + 1, reason)
            return rows[:place]
        after = row.seq
    return rows


def holds_at(path: Path, head: Head) -> bool:
    """Whether the log has this very row: the head that was kept elsewhere. Raises LogError."""
    for file in reversed(list_segments(path) if path.is_dir() else [SegmentFile(0, path)]):
        if file.first <= head.seq:
            reader = SegmentReader.open(file.path)
            try:
                rows = reader.read(head.seq - 1, 1)
            except LogDamaged:
                return False
            finally:
                reader.close()
            return bool(rows) and (rows[0].seq, rows[0].chain) == (head.seq, head.chain)
    return False


__all__ = ["Bad", "Checked", "LogError", "check_log", "holds_at"]
