"""Which closed segments the archive command has taken: a mark for each, with the file's hash."""

import contextlib
import hashlib
import json
import os
from pathlib import Path

from eventlog.segments import list_segments
from eventlog.sqlite_segment import is_sealed

DIRECTORY = "archived"


def mark_of(segment: Path) -> Path:
    """``LOG/archived/log-<seq>.sqlite.json``."""
    return segment.parent / DIRECTORY / f"{segment.name}.json"


def is_archived(segment: Path) -> bool:
    """Whether the command has succeeded for this segment."""
    return mark_of(segment).exists()


def mark_archived(segment: Path) -> None:
    """Remember it, with the SHA-256 that the archived file must have.

    Raises OSError, and leaves nothing behind then.
    """
    with segment.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    mark = mark_of(segment)
    mark.parent.mkdir(mode=0o700, exist_ok=True)
    draft = mark.with_suffix(".new")
    try:
        with draft.open("w") as file_out:
            json.dump({"segment": segment.name, "sha256": digest}, file_out)
            file_out.flush()
            os.fsync(file_out.fileno())
        draft.rename(mark)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def unarchived(directory: Path) -> list[Path]:
    """The closed segments that were not archived yet, oldest first."""
    closed = [file.path for file in list_segments(directory.absolute())[:-1]]
    return [path for path in closed if is_sealed(path) and not is_archived(path)]


def marks(directory: Path) -> frozenset[Path]:
    """All marks of a log. Raises OSError."""
    marked = directory / DIRECTORY
    return frozenset(marked.iterdir()) if marked.is_dir() else frozenset()


def forget_retired(directory: Path) -> None:
    """Remove the marks of segments that are gone. Raises OSError."""
    for mark in marks(directory):
        if not (directory / mark.name.removesuffix(".json")).exists():
            mark.unlink(missing_ok=True)
