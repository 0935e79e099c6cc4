"""Where a copy of a log may be written: never onto the log that it is a copy of, nor onto one that
somebody else is writing."""

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eventlog.chain import verify_chain
from eventlog.errors import LogDamaged, LogError, LogOwned
from eventlog.ownership import Ownership
from eventlog.reading import SqliteReader
from eventlog.record import Head
from eventlog.segments import list_segments

FileId = tuple[int, int]
"""Device and inode: the same for every name of a file, be it a symlink, a hard link or a bind mount
of its directory."""


class TargetIsLog(LogError):
    """What is to be written lies in the log that it is made from, or holds it; nothing was
    written."""

    def __init__(self, target: Path, log: Path, how: str) -> None:
        super().__init__(target, log, how)
        self.target = target
        self.log = log
        self.how = how

    def __str__(self) -> str:
        return (
            f"{self.target} {self.how} {self.log}, which must not be written over: give a place"
            " outside of the log's directory that shares no file with it"
        )


class TargetTaken(LogError):
    """Another process is writing to the target. ``pid`` is 0 when it is not known."""

    def __init__(self, target: Path, pid: int) -> None:
        super().__init__(target, pid)
        self.target = target
        self.pid = pid

    def __str__(self) -> str:
        owner = f"process {self.pid}" if self.pid else "another process"
        return (
            f"{self.target} is being written by {owner}, another copy being made or a program"
            " whose log it is: wait until that has ended, or give another target"
        )


class AnotherLog(LogError):
    """The target holds a copy of another log: ``theirs`` and ``ours`` are the rows that tell them
    apart. Nothing was written."""

    def __init__(self, target: Path, theirs: Head, log: Path, ours: Head) -> None:
        super().__init__(target, theirs, log, ours)
        self.target = target
        self.theirs = theirs
        self.log = log
        self.ours = ours

    def __str__(self) -> str:
        return (
            f"{self.target} holds a copy of another log, or one that was written on: its row"
            f" {self.theirs.seq} has chain {self.theirs.chain.hex()}, and {self.log} goes on"
            f" otherwise, with {self.ours}; give another target, or move what is there away"
        )


class CopyApart(LogError):
    """The copy that is there and the log have no row next to each other: ``theirs`` is the last row
    of the copy, ``begins_at`` and ``ends_at`` are those of the log. Nothing was written."""

    def __init__(self, target: Path, theirs: int, log: Path, begins_at: int, ends_at: int) -> None:
        super().__init__(target, theirs, log, begins_at, ends_at)
        self.target = target
        self.theirs = theirs
        self.log = log
        self.begins_at = begins_at
        self.ends_at = ends_at

    def __str__(self) -> str:
        if self.ends_at < self.theirs:
            how = (
                f"goes on to row {self.theirs}, and {self.log} ends at {self.ends_at}: was that put"
                " back from an older copy? Its later rows would be lost"
            )
        else:
            how = (
                f"ends at row {self.theirs}, and {self.log} begins at {self.begins_at}: rows"
                f" {self.theirs + 1} to {self.begins_at - 1} were retired before they were copied,"
                " and would be missing inside of the copy"
            )
        return f"{self.target} {how}; give another target, and keep this one as it is"


def refuse_another_log(log: Path, target: Path) -> None:
    """Raise AnotherLog unless what ``target`` holds was copied from this very ``log``, CopyApart if
    the two do not touch. A log is known by its chain, which is that of no other from row 1 on.

    Raises LogError too for what cannot be read of either.
    """
    if not target.is_dir() or not list_segments(target):
        return
    with SqliteReader.open(target) as copy, SqliteReader.open(log) as reader:
        theirs, ours = copy.head(), reader.head()
        if ours.seq < theirs.seq:
            there = copy.read(max(0, ours.seq - 1), 1)
            if ours.seq and there and there[0].seq == ours.seq and there[0].chain != ours.chain:
                raise AnotherLog(target, Head(ours.seq, there[0].chain), log, ours)
            raise CopyApart(target, theirs.seq, log, 0, ours.seq)
        rows = reader.read(max(0, theirs.seq - 1), 1) if theirs.seq else []
    if not rows:
        return
    first = Head(rows[0].seq, rows[0].chain)
    if first.seq > theirs.seq + 1:
        raise CopyApart(target, theirs.seq, log, first.seq, ours.seq)
    if first.seq == theirs.seq:
        if first != theirs:
            raise AnotherLog(target, theirs, log, first)
        return
    try:
        verify_chain(rows, theirs)
    except LogDamaged:
        raise AnotherLog(target, theirs, log, first) from None


def refuse_the_log(log: Path, target: Path) -> None:
    """Raise TargetIsLog if writing ``target``, a file or a directory, could touch ``log``.

    By device and inode, so whatever the names are. Writes nothing. Raises OSError for what cannot
    be looked at.
    """
    place = target.resolve()
    if log.is_dir():
        _refuse_around(log, target, place)
        logs = {_id(path) for path in log.iterdir()}
    else:
        beside = [*log.parent.glob("log-*.sqlite*"), *log.parent.glob(f"{glob.escape(log.name)}*")]
        logs = {_id(path) for path in beside}
    written = [place, *place.iterdir()] if place.is_dir() else [place]
    for path in written:
        if _id(path) in logs - {None}:
            raise TargetIsLog(path, log, "is another name for a file of the log")


def _refuse_around(log: Path, target: Path, place: Path) -> None:
    home = _id(log)
    if any(_id(above) == home for above in (place, *place.parents)):
        raise TargetIsLog(target, log, "is or lies in the directory of the log")
    if place.is_dir() and _id(place) in {_id(above) for above in log.resolve().parents}:
        raise TargetIsLog(target, log, "holds the directory of the log")


@contextmanager
def held(target: Path) -> Iterator[None]:
    """Hold a directory as its only writer, as a store does: none can begin on an unfinished copy.

    Raises TargetTaken, StoreFailed.
    """
    try:
        owner = Ownership.take(target)
    except LogOwned as taken:
        raise TargetTaken(target, taken.pid) from None
    try:
        yield
    finally:
        owner.release()


def _id(path: Path) -> FileId | None:
    try:
        told = path.stat()
    except FileNotFoundError:
        return None
    return told.st_dev, told.st_ino
