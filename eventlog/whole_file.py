"""Files that appear under their name whole or not at all."""

import os
import time
from contextlib import suppress
from pathlib import Path

DRAFT = ".new"
"""The end of the name of a file that is being written."""

DRAFT_LEFT_S = 3600
"""A draft this old was left behind by a crash."""


def write_whole(path: Path, data: bytes) -> None:
    """Write it durably, in place of what is there; its directory is made. Raises OSError that names
    the file; then nothing has changed."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}{DRAFT}")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except BaseException as error:
        with suppress(OSError):  # it was not even made
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def left_drafts(directory: Path) -> list[Path]:
    """Drafts that a crash left behind."""
    before_s = time.time() - DRAFT_LEFT_S
    return [path for path in directory.glob(f"*{DRAFT}") if _written_s(path) < before_s]


def _written_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another program is done with it: its file has its name by now
        return float("inf")
