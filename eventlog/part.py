"""A directory that is there only while something is made in it, by one process at a time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eventlog.errors import LogOwned, StoreFailed
from eventlog.ownership import TRIES, Ownership
from eventlog.targets import TargetTaken


@contextmanager
def held_part(place: Path) -> Iterator[None]:
    """Make ``place`` and hold it; at the end it goes, unless something is left in it.

    Whoever holds it empties it before the end. It may be another's a moment later, so what is
    removed then is the lock, by who holds it, and a directory that is empty: to remove the whole
    tree took away what another process had begun. Raises TargetTaken, StoreFailed, OSError.
    """
    try:
        owner = _take(place)
        try:
            yield
        finally:
            owner.release()
    finally:
        with suppress(OSError):  # not empty: another's by now, or it never was only ours
            place.rmdir()


def _take(place: Path) -> Ownership:
    """Make it again where another, at its own end, removed it between the two steps."""
    for left in reversed(range(TRIES)):
        with suppress(FileExistsError):  # Path.mkdir asks what is there, which may be gone then
            os.mkdir(place, 0o700)  # noqa: PTH102
        try:
            owner = Ownership.take(place, passing=True)
            break
        except LogOwned as taken:
            raise TargetTaken(place, taken.pid) from None
        except StoreFailed as failed:
            if not left or not isinstance(failed.__cause__, FileNotFoundError):
                raise
    return owner
