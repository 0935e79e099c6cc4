"""Copies of a log, also while it is written: as the log it is, or all of it in one file."""

import os
import sqlite3
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import BinaryIO

import attrs

from eventlog.errors import ChangedMeanwhile, LogDamaged, LogMissing, Overtaken, StoreFailed
from eventlog.lost_end import COPIED, is_copy, mark_copy
from eventlog.made import made
from eventlog.record import Head
from eventlog.segments import SegmentFile, SegmentReader, list_segments, sqlite_errors
from eventlog.snapshots import DIRECTORY as SNAPSHOTS
from eventlog.snapshots import copy_snapshot, copy_snapshots
from eventlog.sqlite_opening import is_complete, is_torn, open_to_read
from eventlog.sqlite_segment import DRAFT, is_sealed, remove_file, sync_directory
from eventlog.sqlite_target import errors_of_the_source, target_errors
from eventlog.targets import held, refuse_another_log, refuse_the_log

PIECE_BYTES = 1 << 20
HELD_MAX = 200
"""Closed segments that are held open at a time: a process has 1,024 descriptors, often."""

TRIES = 5


@attrs.frozen
class Copied:
    """Segments: ``new`` were copied now, ``there`` had been copied before. ``snapshots`` are those
    the copy has, by the row after which they were taken; ``begins_at`` is its first row.
    ``retired`` segments the log no longer had at the end."""

    new: tuple[Path, ...]
    there: tuple[Path, ...]
    snapshots: tuple[int, ...]
    begins_at: int
    retired: tuple[Path, ...] = ()

    @property
    def tells_of_its_beginning(self) -> bool:
        """Whether it holds all rows, or a snapshot of what went before its first one."""
        return self.begins_at == 1 or self.begins_at - 1 in self.snapshots


def copy_log(log: Path, target: Path) -> Copied:
    """Copy every segment of ``log`` into the directory ``target``, which is a log then, and the
    snapshots that it needs: at the beginning of each segment, and the newest.

    Closed segments are copied once. The open one is copied as it is at one moment, with SQLite's
    backup, and again the next time; it comes last, so that the copy has no hole. Each appears
    whole. Closed ones are held open, so those that are retired meanwhile are copied too. Nobody
    else writes to ``target`` meanwhile. Raises LogMissing, TargetIsLog, TargetTaken, AnotherLog,
    CopyApart, Overtaken, StoreFailed, LogDamaged, OSError.
    """
    if not log.is_dir() or not list_segments(log):
        raise LogMissing(log)
    refuse_the_log(log, target)
    with made(target), held(target):
        try:
            refuse_another_log(log, target)
            return _copy_all(log, target)
        finally:
            for draft in target.glob(f"log-*{DRAFT}*"):  # of a copy that failed, or was killed
                draft.unlink(missing_ok=True)


@attrs.frozen
class _Held:
    """A segment to be copied; ``opened`` if it is closed, so that it can be unlinked meanwhile."""

    file: SegmentFile
    opened: BinaryIO | None


def _copy_all(log: Path, target: Path) -> Copied:
    with target_errors(target / SNAPSHOTS):
        copy_snapshot(log, target, list_segments(log)[0].first - 1)
    new: list[Path] = []
    there: list[Path] = []
    until = 0
    done = 0
    more = True
    was_open = False
    while more:
        with ExitStack() as holding:
            batch, more = _hold(log, done, holding)
            for one in batch:
                if done and one.file.first > until + 1:
                    raise Overtaken(log, target, until, one.file.first)
                copy = target / one.file.path.name
                if one.opened is not None and _is_copied(one.file.path, copy):
                    there.append(copy)
                else:
                    _copy(log, one, copy, until)
                    new.append(copy)
                head = _head(copy)
                done, until = one.file.first, until if head is None else head.seq
                was_open = one.opened is None or is_copy(one.file.path)
    if was_open:
        with target_errors(target / COPIED):
            mark_copy(target, until)
    sync_directory(target)
    firsts = [file.first for file in list_segments(target)]
    with target_errors(target / SNAPSHOTS):
        snapshots = copy_snapshots(log, target, firsts, until)
    retired = tuple(path for path in (*there, *new) if not (log / path.name).exists())
    return Copied(tuple(new), tuple(there), snapshots, firsts[0], retired)


def _hold(log: Path, done: int, holding: ExitStack) -> tuple[list[_Held], bool]:
    """The next segments after the one that begins at ``done``, and whether there may be more: not
    behind an open one, which is copied as it is at one moment."""
    while True:
        files = [file for file in list_segments(log) if file.first > done]
        batch: list[_Held] = []
        try:
            for file in files[:HELD_MAX]:
                closed = is_sealed(file.path)
                opened = holding.enter_context(file.path.open("rb")) if closed else None
                batch.append(_Held(file, opened))
        except FileNotFoundError:
            if os.path.lexists(file.path):
                raise
            holding.close()  # retired just now, and so are those before it
            continue
        return batch, bool(batch) and (len(batch) < len(files) or batch[-1].opened is not None)


def _is_copied(sealed: Path, copy: Path) -> bool:
    """Whether all of a segment was copied: one that was open then may have had as many pages."""
    with suppress(FileNotFoundError, LogDamaged, StoreFailed):  # not copied, or retired by now
        return copy.stat().st_size == sealed.stat().st_size and _head(copy) == _head(sealed)
    return False


def _head(path: Path) -> Head | None:
    with closing(SegmentReader.open(path)) as reader:
        return reader.head()


def _copy(log: Path, one: _Held, copy: Path, until: int) -> None:
    draft = copy.with_name(copy.name + DRAFT)
    remove_file(draft)
    if one.opened is not None:
        with target_errors(copy):
            _copy_file(one.opened, one.file.path, draft)
    else:
        try:
            _back_up(one.file.path, draft, copy)
        except (StoreFailed, FileNotFoundError):
            left = list_segments(log)
            if one.file in left or not left:
                raise
            raise Overtaken(log, copy.parent, until, left[0].first) from None
    draft.rename(copy)


def _copy_file(opened: BinaryIO, path: Path, draft: Path) -> None:
    with draft.open("wb") as writing:
        while data := _read(opened, path):
            writing.write(data)
        writing.flush()
        os.fsync(writing.fileno())


def _read(opened: BinaryIO, path: Path) -> bytes:
    try:
        return opened.read(PIECE_BYTES)
    except OSError as error:
        raise StoreFailed(str(path), f"cannot be read ({error.strerror})") from error


def _back_up(source: Path, draft: Path, copy: Path) -> None:
    """As ``open_to_read`` has it: a log at rest may lie where nothing can be written."""
    if is_complete(source) and is_torn(source):
        raise LogDamaged(str(source), 0, "file: it is shorter than its header says")
    for _ in range(TRIES):
        remove_file(draft)
        with sqlite_errors(source):
            opened = open_to_read(source)
        with closing(opened.connection) as reading:
            with target_errors(copy), closing(sqlite3.connect(draft)) as writing:
                with errors_of_the_source(source):
                    reading.backup(writing)
                writing.execute("PRAGMA journal_mode = DELETE").fetchall()
            if not opened.outdated(source):
                return
    raise ChangedMeanwhile(source)
