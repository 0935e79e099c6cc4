"""A log checked in parts, by several processes: rows, chain, digests, and its files as a whole.

Only that all is good is found so. Whatever is not, the walk from the first row finds and tells.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import attrs

from eventlog import Head, LogError
from eventlog.chain import verify_chain
from eventlog.check import Checked
from eventlog.reading import SqliteReader
from eventlog.segments import SegmentFile, SegmentReader, list_segments
from eventlog.snapshots import BadSnapshot, Snapshot, Snapshots
from eventlog.wal import broken_tail
from trioroute import events as e
from trioroute.cli.failures import warn
from trioroute.cli.log.digests import Comparison
from trioroute.replay.processes import free_cores, in_order, told_to_stop
from trioroute.replay.read import Source
from trioroute.snapshot import FOLD, LogFold, foreign_only, parse_states, tells

PART_ROWS = 20_000
"""Rows of a part at least: reading and comparing the snapshots at its ends is a small share."""

WORTH_ROWS = 3 * PART_ROWS
"""Fewer are checked here: starting the processes takes as long as they would spare."""

PAGE = 1000

Progress = Callable[[int, int], None]
"""Told the last row checked and the last there is."""


@attrs.frozen
class Found:
    """Of a part that is good: its digests, and its last row. ``began`` and ``reached`` name the
    snapshots at its ends by what is in them; b"" where there is none."""

    good: int = 0
    bad: tuple[int, ...] = ()
    head: Head = attrs.field(factory=Head)
    began: bytes = b""
    reached: bytes = b""


@attrs.frozen
class Rows:
    """The rows with ``after < seq <= until``, from the snapshot after row ``after`` on.

    With ``proves`` the snapshot at the end must tell of the state that is reached: so each part
    proves that the next one begins with the right one.
    """

    after: int
    until: int
    proves: bool

    def check(self, source: Source) -> Found | None:
        snapshots = source.snapshots
        assert snapshots is not None
        try:
            kept = snapshots.read(self.after) if self.after else None
            fold = LogFold() if kept is None else _fold_of(kept)
            compared = Comparison(fold)
            while fold.head.seq < self.until and not told_to_stop():
                limit = min(PAGE, self.until - fold.head.seq)
                page = source.reader.read(fold.head.seq, limit)
                if not page:
                    return None
                verify_chain(page, fold.head)
                for record in page:
                    compared.take(record)
            end = snapshots.read(self.until) if self.proves else None
        except (BadSnapshot, LogError, e.UnreadableEvent):
            return None
        if fold.head.seq != self.until or fold.inexact:
            return None
        if end is not None and not tells(end, fold.head, fold.states):
            return None
        return Found(compared.good, tuple(compared.bad), fold.head, _name(kept), _name(end))


@attrs.frozen
class File:
    """A segment as a whole: that it holds its rows and no others, and what SQLite finds in it."""

    file: SegmentFile
    following: int | None

    def check(self, _: Source) -> Found | None:
        try:
            with closing(SegmentReader.open(self.file.path)) as reader:
                head = reader.head()
                whole = head is not None and reader.lacking(self.file.first) == 0
                ends = head is not None and self.following in (None, head.seq + 1)
                return Found() if whole and ends and not reader.trouble() else None
        except LogError:
            return None


def check_job(source: Source, job: Rows | File) -> Found | None:
    """None where anything is not as it should be."""
    return job.check(source)


def check_in_parts(log: Path, progress: Progress, *, spared_cores: int) -> "InParts | None":
    """None unless it is worth it and all rows and files are good: then walk, and see."""
    if not log.is_dir():
        return None
    try:
        with SqliteReader.open(log) as reader:
            snapshots = Snapshots(log)
            source = Source(reader, snapshots=snapshots, spared_cores=spared_cores, warn=warn)
            rows = _parts(source)
            processes = free_cores(source)
            if len(rows) < 2:
                source.tell_once(foreign_only(snapshots, reader.head().seq))
            if len(rows) < 2 or not processes:
                return None
            files = list_segments(log)
            jobs: list[Rows | File] = [*_files(files), *rows]
            found = _joined(source, jobs, processes, progress)
            return None if found is None or broken_tail(files[-1].path) is not None else found
    except (LogError, OSError):
        return None


@attrs.frozen
class InParts:
    """What the check found, and the digests: how many were right, and the rows whose were not."""

    checked: Checked
    good: int
    bad: Sequence[int]


def _joined(
    source: Source, jobs: Sequence[Rows | File], processes: int, progress: Progress
) -> InParts | None:
    rows = [job for job in jobs if isinstance(job, Rows)]
    begins_at, until = rows[0].after + 1, rows[-1].until
    good, bad, last = 0, list[int](), Found()
    waiting = iter(jobs)
    with closing(in_order(source, check_job, ((job,) for job in jobs), processes)) as results:
        for job, found in zip(waiting, results, strict=False):
            if found is None:
                return None
            if isinstance(job, Rows):
                if job is not rows[0] and found.began != last.reached:
                    return None
                good, last = good + found.good, found
                bad += found.bad
                progress(job.until, until)
    if last.head.seq != until:
        return None  # processes ended early
    checked = Checked(until - begins_at + 1, begins_at, head=last.head, holds=[(begins_at, until)])
    return InParts(checked, good, bad)


def _parts(source: Source) -> list[Rows]:
    """Cut where snapshots are. Empty for a log that begins where there is none."""
    assert source.snapshots is not None
    first, until = source.reader.read(0, 1), source.reader.head().seq
    seqs = [seq for seq in source.snapshots.seqs() if source.snapshots.fold_of(seq) == FOLD]
    if not first or until - first[0].seq < WORTH_ROWS:
        return []
    cuts = [first[0].seq - 1]
    if cuts[0] and cuts[0] not in seqs:
        return []
    for seq in reversed(seqs):
        if cuts[-1] + PART_ROWS <= seq <= until - PART_ROWS:
            cuts.append(seq)
    return [Rows(after, end, end != until) for after, end in pairwise([*cuts, until])]


def _files(files: Sequence[SegmentFile]) -> list[File]:
    following = [file.first for file in files[1:]]
    return [File(file, first) for file, first in zip(files, [*following, None], strict=True)]


def _fold_of(kept: Snapshot) -> LogFold:
    """Raises BadSnapshot."""
    if kept.fold != FOLD:
        raise BadSnapshot("it was made by another release")
    return LogFold(parse_states(kept.payload), kept.head)


def _name(kept: Snapshot | None) -> bytes:
    return b"" if kept is None else kept.digest()
