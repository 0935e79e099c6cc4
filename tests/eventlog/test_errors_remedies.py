"""A log that cannot be written says why, and what helps."""

import errno
import os
from pathlib import Path

import pytest

from eventlog.errors import NoRoom, cannot_write


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EROFS, "remount it, or work on a copy"),
        (errno.EACCES, "run it as the user whose it is"),
        (errno.EIO, "look at the kernel's log"),
        (errno.ENOSPC, "free room on its disk"),
    ],
)
def test_the_remedy_is_named(number: int, remedy: str) -> None:
    error = OSError(number, os.strerror(number))
    told = str(cannot_write(Path("/log/owner.lock"), error))
    assert told.startswith(f"/log/owner.lock: cannot be written ({os.strerror(number)}): ")
    assert told.count(remedy) == 1
    assert isinstance(cannot_write(Path("x"), error), NoRoom) == (number == errno.ENOSPC)


def test_an_error_of_words_only_is_told_in_its_words() -> None:
    told = str(cannot_write(Path("/log"), FileExistsError("it is there already")))
    assert told == "/log: cannot be written (it is there already)"
