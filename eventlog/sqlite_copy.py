"""Copies of a log, also while it is written: as the log it is, or all of it in one file."""

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

import attrs

from eventlog.errors import LogDamaged, LogMissing, StoreFailed
from eventlog.reading import SqliteReader
from eventlog.record import Head
from eventlog.segments import SegmentFile, SegmentReader, list_segments, sqlite_errors
from eventlog.snapshots import copy_snapshots
from eventlog.sqlite_segment import DRAFT, is_sealed, make_segment, remove_file, sync_directory
from eventlog.targets import held, refuse_the_log


@attrs.frozen
class Copied:
    """Segments: ``new`` were copied now, ``there`` had been copied before. ``snapshots`` are those
    the copy has, by the row after which they were taken; ``begins_at`` is its first row."""

    new: tuple[Path, ...]
    there: tuple[Path, ...]
    snapshots: tuple[int, ...]
    begins_at: int

    @property
    def tells_of_its_beginning(self) -> bool:
        """Whether it holds all rows, or a snapshot of what went before its first one."""
        return self.begins_at == 1 or self.begins_at - 1 in self.snapshots


def copy_log(log: Path, target: Path) -> Copied:
    """Copy every segment of ``log`` into the directory ``target``, which is a log then, and the
    snapshots that it needs: at the beginning of each segment, and the newest.

    Closed segments are copied once. The open one is copied as it is at one moment, with SQLite's
    backup, and again the next time. Each appears whole. Nobody else writes to ``target`` meanwhile.
    Raises LogMissing, TargetIsLog, TargetTaken, StoreFailed, LogDamaged, OSError.
    """
    if not log.is_dir() or not list_segments(log):
        raise LogMissing(log)
    refuse_the_log(log, target)
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    with held(target):
        return _copy_all(log, target)


def _copy_all(log: Path, target: Path) -> Copied:
    new: list[Path] = []
    there: list[Path] = []
    done = 0
    while files := [file for file in list_segments(log) if file.first > done]:
        for file in files:
            done = file.first
            copy = target / file.path.name
            if copy.exists() and is_sealed(file.path) and _is_copied(file.path, copy):
                there.append(copy)
            else:
                _copy(file, copy)
                new.append(copy)
    sync_directory(target)
    firsts = [file.first for file in list_segments(target)]
    with SqliteReader.open(target) as reader:
        head = reader.head()
    snapshots = copy_snapshots(log, target, firsts, head.seq)
    return Copied(tuple(new), tuple(there), snapshots, firsts[0])


def _is_copied(sealed: Path, copy: Path) -> bool:
    """Whether all of a segment was copied: one that was open then may have had as many pages."""
    if copy.stat().st_size != sealed.stat().st_size:
        return False
    with suppress(LogDamaged, StoreFailed):
        return _head(copy) == _head(sealed)
    return False


def _head(path: Path) -> Head | None:
    with closing(SegmentReader.open(path)) as reader:
        return reader.head()


def _copy(file: SegmentFile, copy: Path) -> None:
    draft = copy.with_name(copy.name + DRAFT)
    remove_file(draft)
    if is_sealed(file.path):
        shutil.copyfile(file.path, draft)
    else:
        with sqlite_errors(file.path):
            _back_up(file.path, draft)
    draft.rename(copy)


def _back_up(source: Path, target: Path) -> None:
    reading = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)
    writing = sqlite3.connect(target, isolation_level=None)
    try:
        reading.backup(writing)
        writing.execute("PRAGMA journal_mode = DELETE").fetchall()
    finally:
        writing.close()
        reading.close()


def copy_into_one_file(log: Path, target: Path, views: Mapping[str, str]) -> int:
    """All rows of a log in one new SQLite file with ``views`` over all of them; how many rows.

    Raises LogMissing, TargetIsLog, StoreFailed, LogDamaged, FileExistsError, OSError.
    """
    files = list_segments(log) if log.is_dir() else []
    if not files:
        raise LogMissing(log)
    refuse_the_log(log, target)
    if target.exists():
        raise FileExistsError(f"{target} is there already: give a name that is free")
    draft = target.with_name(target.name + ".part")
    remove_file(draft)
    make_segment(SegmentFile(0, draft), views)
    with sqlite_errors(draft):
        writing = sqlite3.connect(draft, isolation_level=None, uri=True)
        try:
            writing.execute("PRAGMA journal_mode = DELETE").fetchall()
            for file in files:
                source = f"{file.path.absolute().as_uri()}?mode=ro"
                writing.execute("ATTACH ? AS part", (source,))
                writing.execute("INSERT INTO main.events SELECT * FROM part.events")
                writing.execute("DETACH part")
            rows: int = writing.execute("SELECT count(*) FROM events").fetchone()[0]
        finally:
            writing.close()
    draft.rename(target)
    return rows
