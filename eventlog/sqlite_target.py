"""What goes wrong with the file that is being written, told of that file."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eventlog.errors import NO_ROOM, NoRoom, StoreFailed, cannot_write
from eventlog.schema import log_error

ROOM_BYTES = 64 << 10
"""A disk with less is full: SQLite makes no file of shared memory there."""


OF_THE_SOURCE = (
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
    "SQLITE_CORRUPT",
    "SQLITE_IOERR_READ",
    "SQLITE_IOERR_SHORT_READ",
)
"""How the errors begin that a statement over two files makes of the one it reads."""


@contextmanager
def target_errors(target: Path) -> Iterator[None]:
    """Turn what goes wrong while ``target`` is written into StoreFailed about it, or NoRoom with
    the mount point of its disk.

    SQLite has many words for a full disk (as SQLITE_IOERR_SHMSIZE), so the disk itself is asked.
    """
    try:
        yield
    except (sqlite3.Error, StoreFailed, OSError) as error:
        errno_is = error.errno in NO_ROOM if isinstance(error, OSError) else False
        if errno_is or isinstance(error, NoRoom) or _is_full(target):
            disk = _mount_of(target)
            raise NoRoom(str(target), f"no room for it on the disk of {disk}") from error
        if isinstance(error, sqlite3.Error):
            raise log_error(error, target) from error
        if isinstance(error, OSError) and error.filename is None:
            raise cannot_write(target, error) from error
        raise


@contextmanager
def errors_of_the_source(source: Path) -> Iterator[None]:
    """What one statement over two files says of the one it reads; the rest is of the other."""
    try:
        yield
    except sqlite3.Error as error:
        if not str(error.sqlite_errorname).startswith(OF_THE_SOURCE):
            raise
        raise log_error(error, source) from error


def _is_full(target: Path) -> bool:
    """Asked after a failure, while its draft still has what room it got."""
    try:
        told = os.statvfs(target.parent)
    except OSError:
        return False
    return told.f_bavail * told.f_frsize < ROOM_BYTES


def _mount_of(target: Path) -> Path:
    place = target.resolve().parent
    return next(above for above in (place, *place.parents) if above.is_mount())
