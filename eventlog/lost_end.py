"""Whether the end of a log is gone: rows of which nothing that is left says a word.

The chain proves that the rows that are there follow each other, not that none came after them. But
a segment's file tells how it was left: one that is written to says so in its header and has a
write-ahead log beside it while its router runs, one that was closed says that too, and is closed
only when the next one is there.
"""

import time
from contextlib import closing
from pathlib import Path
from typing import Literal, get_args

import attrs

from eventlog.errors import LogError
from eventlog.ownership import LOCK_NAME, cut_short
from eventlog.segments import SegmentReader, has_wal, list_segments
from eventlog.sqlite_segment import WRITES_AHEAD, write_version
from eventlog.whole_file import write_whole

LOOK_AGAIN_S = 0.1
"""A writer may be between two files; what is still so then is no writer."""

COPIED = "copied"
"""A file beside a copy of an open segment, which looks like a closed one: the copy's last row."""

Part = Literal["wal", "segment"]
PARTS: tuple[Part, ...] = get_args(Part)


@attrs.frozen
class LostEnd:
    """What is not there: the write-ahead log of ``segment``, the newest, or the segment after it.

    ``known_to_have_died``: its writer's lock says so; else nothing tells, as in a bare copy.
    """

    part: Part
    segment: Path
    known_to_have_died: bool = False

    def closed(self, segment: Path) -> bool:
        """Whether this one was, although it is the newest."""
        return self.part == "segment" and segment == self.segment

    def words(self, last_seq: int) -> str:
        """What to say of it, ``last_seq`` being the last row there is."""
        remedy = "put it back beside this file, or compare with a head that was kept elsewhere"
        if self.part == "segment":
            return (
                f"{self.segment} was closed, so a segment from row {last_seq + 1} on was begun, and"
                f" it is not there: unless nothing was written to it, or this is a copy that log"
                f" archive made and lacks the file {COPIED!r}, rows after {last_seq} are missing;"
                f" {remedy}"
            )
        why = "the router that wrote it did not end in order"
        if not self.known_to_have_died:
            why = "its last row is not that of a router's end in order"
        return (
            f"{self.segment}-wal is not there although {why}: if it was lost or not copied, rows"
            f" after {last_seq} are missing; {remedy}"
        )


def lost_end(log: Path, last_kind: str) -> LostEnd | None:
    """Whether rows at the end of a log may be gone; None if nothing speaks for it.

    ``log`` is a directory, or one segment's file, which is asked for its write-ahead log only.
    ``last_kind`` is that of the row which a writer leaves last when it ends in order. A foreign
    program that folded a write-ahead log in and removed it leaves the same picture, and so does
    SQLite's VACUUM INTO that of a closed segment. Raises OSError.
    """
    if _lost_end(log, last_kind) is None:
        return None
    time.sleep(LOOK_AGAIN_S)
    return _lost_end(log, last_kind)


def _lost_end(log: Path, last_kind: str) -> LostEnd | None:
    if not log.exists():
        return None
    whole = log.is_dir()
    files = list_segments(log if whole else log.parent)
    newest = files[-1].path if files and whole else log
    older = not whole and log.name in {file.path.name for file in files[:-1]}
    if older or not newest.is_file() or has_wal(newest):
        return None
    if write_version(newest) != WRITES_AHEAD:
        return LostEnd("segment", newest) if whole and not is_copy(newest) else None
    lock = newest.with_name(LOCK_NAME)
    if lock.exists():
        in_order = not lock.stat().st_size or cut_short(newest.parent) is not None
        return None if in_order else LostEnd("wal", newest, known_to_have_died=True)
    return None if _last_of(newest)[1] == last_kind else LostEnd("wal", newest)


def _last_of(segment: Path) -> tuple[int, str]:
    """The seq and kind of the last row; 0 and nothing for a blank or an unreadable one."""
    try:
        with closing(SegmentReader.open(segment)) as reader:
            head = reader.head()
            rows = reader.read(head.seq - 1, 1) if head is not None else []
    except LogError:
        return 0, ""
    return (rows[0].seq, rows[0].kind) if rows else (0, "")


def is_copy(newest: Path) -> bool:
    """Whether it is as ``copy_log`` left it, which told so."""
    try:
        told = newest.with_name(COPIED).read_bytes().strip()
    except FileNotFoundError:
        return False
    return told == b"%d" % _last_of(newest)[0]


def mark_copy(directory: Path, last_seq: int) -> None:
    """Tell beside a copy of an open segment where it ends. Raises OSError."""
    write_whole(directory / COPIED, b"%d\n" % last_seq)
