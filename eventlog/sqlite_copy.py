"""Copies of a log, also while it is written: as the log it is, or all of it in one file."""

import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import attrs

from eventlog.errors import LogDamaged, LogMissing, StoreFailed
from eventlog.reading import SqliteReader
from eventlog.record import Head
from eventlog.schema import log_error
from eventlog.segments import SegmentFile, SegmentReader, list_segments, sqlite_errors
from eventlog.snapshots import DIRECTORY as SNAPSHOTS
from eventlog.snapshots import copy_snapshots
from eventlog.sqlite_opening import uri_of
from eventlog.sqlite_segment import DRAFT, is_sealed, make_segment, remove_file, sync_directory
from eventlog.sqlite_target import target_errors
from eventlog.targets import TargetTaken, held, refuse_the_log

PART = ".part"
"""Added to the name of one file: the directory in which it is made, held by who makes it."""

OF_THE_SOURCE = (
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
    "SQLITE_CORRUPT",
    "SQLITE_IOERR_READ",
    "SQLITE_IOERR_SHORT_READ",
)
"""How the errors begin that a statement over two files makes of the one it reads."""


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
        try:
            return _copy_all(log, target)
        finally:
            for draft in target.glob(f"log-*{DRAFT}*"):  # of a copy that failed, or was killed
                draft.unlink(missing_ok=True)


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
    with target_errors(target / SNAPSHOTS):
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
        with target_errors(copy):
            shutil.copyfile(file.path, draft)
    else:
        _back_up(file.path, draft, copy)
    draft.rename(copy)


def _back_up(source: Path, draft: Path, copy: Path) -> None:
    with sqlite_errors(source):
        reading = sqlite3.connect(uri_of(source, "mode=ro"), uri=True)
    try:
        with sqlite_errors(source):
            reading.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        with target_errors(copy), closing(sqlite3.connect(draft, isolation_level=None)) as writing:
            with _errors_of_the_source(source):
                reading.backup(writing)
            writing.execute("PRAGMA journal_mode = DELETE").fetchall()
    finally:
        reading.close()


@contextmanager
def _errors_of_the_source(source: Path) -> Iterator[None]:
    """What one statement over two files says of the one it reads; the rest is of the other."""
    try:
        yield
    except sqlite3.Error as error:
        if not str(error.sqlite_errorname).startswith(OF_THE_SOURCE):
            raise
        raise log_error(error, source) from error


def copy_into_one_file(log: Path, target: Path, views: Mapping[str, str]) -> int:
    """All rows of a log in one new SQLite file with ``views`` over all of them; how many rows.

    Raises LogMissing, TargetIsLog, TargetTaken, StoreFailed, LogDamaged, FileExistsError, OSError.
    """
    files = list_segments(log) if log.is_dir() else []
    if not files:
        raise LogMissing(log)
    refuse_the_log(log, target)
    _refuse_what_is_there(target)
    place = target.with_name(target.name + PART)
    try:
        with target_errors(target):
            place.mkdir(mode=0o700, exist_ok=True)
            with held(place):
                _refuse_what_is_there(target)
                rows = _gather(files, place / target.name, views)
                (place / target.name).rename(target)
                shutil.rmtree(place)
    except TargetTaken:
        raise
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return rows


def _refuse_what_is_there(target: Path) -> None:
    if target.exists():
        raise FileExistsError(f"{target} is there already: give a name that is free")


def _gather(files: Sequence[SegmentFile], draft: Path, views: Mapping[str, str]) -> int:
    remove_file(draft)  # of a copy that was killed
    make_segment(SegmentFile(0, draft), views)
    with closing(sqlite3.connect(draft, isolation_level=None, uri=True)) as writing:
        writing.execute("PRAGMA journal_mode = DELETE").fetchall()
        for file in files:
            source = uri_of(file.path, "mode=ro")
            with sqlite_errors(file.path):
                writing.execute("ATTACH ? AS part", (source,))
                writing.execute("SELECT count(*) FROM part.sqlite_schema").fetchall()
            with _errors_of_the_source(file.path):
                writing.execute("INSERT INTO main.events SELECT * FROM part.events")
            writing.execute("DETACH part")
        rows: int = writing.execute("SELECT count(*) FROM events").fetchone()[0]
    return rows
