"""Where a copy of a log may be written: never onto the log that it is a copy of, nor onto one that
somebody else is writing."""

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eventlog.errors import LogError, LogOwned
from eventlog.ownership import Ownership

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
