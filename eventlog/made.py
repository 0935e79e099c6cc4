"""Directories that are made for a copy of a log, and go again where nothing came of it."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eventlog.ownership import LOCK_NAME
from eventlog.segments import list_segments
from eventlog.snapshots import DIRECTORY as SNAPSHOTS


@contextmanager
def made(directory: Path) -> Iterator[None]:
    """Make ``directory`` and those above it that are missing. Where what follows fails before one
    segment is in it whole, all that were made now are removed. Raises OSError.
    """
    missing = [place for place in (directory, *directory.parents) if not place.exists()]
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield
    except BaseException:
        if missing:
            _unmake(directory)
        for place in missing:
            with suppress(OSError):  # it was not even made, or holds something by now
                place.rmdir()
        raise


def _unmake(directory: Path) -> None:
    """Remove it with its lock held, so that nobody can begin in it meanwhile; not if another does
    already."""
    with suppress(OSError), (directory / LOCK_NAME).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not list_segments(directory):
            shutil.rmtree(directory / SNAPSHOTS, ignore_errors=True)
            (directory / LOCK_NAME).unlink()
            directory.rmdir()
