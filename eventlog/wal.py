"""Whether a write-ahead log breaks off although commits follow: SQLite passes that over in silence.

SQLite reads it up to the first frame whose checksum is wrong, as a crash leaves one (sqlite.org's
fileformat2.html, section 4). A flipped bit looks the same and takes all commits behind it.
"""

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import attrs

from eventlog.pages import page_bytes_of
from eventlog.schema import PAGE_SIZES

_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")
_LITTLE, _BIG = 0x377F0682, 0x377F0683
LOOK_AGAIN_S = 0.1
"""A writer may have been in the middle of a frame; what is still so then is damage."""


@attrs.frozen
class BrokenTail:
    """What ``part`` holds ends at byte ``offset``, yet ``commits`` lie behind it."""

    part: Path
    offset: int
    commits: int

    def __str__(self) -> str:
        behind = f"{self.commits} commit{'s' if self.commits > 1 else ''} behind it cannot be read"
        return (
            f"the write-ahead log {self.part} breaks off at byte {self.offset}, {behind}: power was"
            " lost before they were on the disk, or it was changed"
        )


def broken_tail(segment: Path) -> BrokenTail | None:
    """What the write-ahead log of a segment lost, None if nothing, or if there is none.

    Raises OSError.
    """
    part = segment.with_name(segment.name + "-wal")
    found = _look(part, segment)
    if found is None:
        return None
    time.sleep(LOOK_AGAIN_S)
    return found if _look(part, segment) == found else None


def broken_behind(segment: Path, frames: int) -> BrokenTail | None:
    """The same where SQLite has told how many ``frames`` hold, and nobody writes: none is summed.

    Raises OSError.
    """
    return _look(segment.with_name(segment.name + "-wal"), segment, frames)


def _look(part: Path, segment: Path, known: int = 0) -> BrokenTail | None:
    try:
        with part.open("rb") as file:
            return _first_break(part, file, segment, known)
    except FileNotFoundError:
        return None


def _first_break(part: Path, file: BinaryIO, segment: Path, known: int) -> BrokenTail | None:
    raw = file.read(_HEADER.size)
    if len(raw) < _HEADER.size:
        return None
    magic, _, page_bytes, _, *salts, one, two = _HEADER.unpack(raw)
    order = ">" if magic == _BIG else "<"
    sums = _checksum((0, 0), raw[:24], order)
    sound = magic in (_LITTLE, _BIG) and sums == (one, two)
    page_bytes = page_bytes if page_bytes in PAGE_SIZES else page_bytes_of(segment)
    holds_to = _HEADER.size + known * (_FRAME.size + page_bytes) if sound else 0
    whole, commits = sound, 0
    for number, (end, head, page) in enumerate(_frames(file, page_bytes)):
        if number < known:
            continue
        _, pages_after_commit, *told_salts, one, two = _FRAME.unpack(head)
        if whole and not known:
            sums = _checksum(_checksum(sums, head[:8], order), page, order)
        whole = whole and not known and told_salts == salts and sums == (one, two)
        if whole and pages_after_commit:
            holds_to = end
        elif not whole:
            commits += pages_after_commit > 0 and (told_salts == salts or not sound)
    return BrokenTail(part, holds_to, commits) if commits else None


def _frames(file: BinaryIO, page_bytes: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Where each ends, its head and its page."""
    end = _HEADER.size
    size = _FRAME.size + page_bytes
    while len(frame := file.read(size)) == size:
        end += size
        yield end, frame[: _FRAME.size], frame[_FRAME.size :]


def _checksum(sums: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    one, two = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for first, second in zip(words, words, strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two
