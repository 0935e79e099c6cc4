"""Which closed segments may go, oldest first, and unlinking them as whole files.

Nothing is ever deleted out of a segment. A segment goes only if the one after it can stand at the
beginning of the log, which ``may_go`` judges: then nothing that is kept loses its past.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import attrs

from eventlog.segments import SegmentFile, SegmentReader, list_segments
from eventlog.sqlite_segment import is_sealed, remove_file, sync_directory

SUFFIXES = ("", "-wal", "-shm")


@attrs.frozen
class Retention:
    """How long and how much is kept; 0: for ever, or whatever its size."""

    age_ms: int = 0
    size_bytes: int = 0


@attrs.frozen
class Segment:
    """A segment as it lies on the disk. ``first_at_ms`` and ``last_at_ms`` are the times of its
    first and last row, None while it has none; ``changed_at_ms`` is when its file was written to
    last, by the file system."""

    file: SegmentFile
    size_bytes: int
    first_at_ms: int | None
    last_at_ms: int | None
    last_seq: int
    closed: bool
    changed_at_ms: int


@attrs.frozen
class Plan:
    """``going`` are the segments to unlink, oldest first. ``kept_back`` are those whose time is
    over or that are too many, but that may not go, with the reason of the first of them."""

    going: tuple[Segment, ...]
    kept_back: tuple[Segment, ...]
    reason: str = ""


MayGo = Callable[[Segment, Segment], str]
"""Why a segment may not go although the limits say so, given the one after it; empty: it may."""


def look(directory: Path) -> list[Segment]:
    """Every segment of a log, oldest first. Raises LogDamaged, StoreFailed."""
    files = list_segments(directory)
    found = []
    for file in files:
        try:
            found.append(_look_at(file, last=file is files[-1]))
        except FileNotFoundError:
            continue  # unlinked just now
    return found


def _look_at(file: SegmentFile, *, last: bool) -> Segment:
    size = sum(
        part.stat().st_size
        for part in (file.path.with_name(file.path.name + suffix) for suffix in SUFFIXES)
        if part.exists()
    )
    changed_at_ms = file.path.stat().st_mtime_ns // 1_000_000
    closed = not last and is_sealed(file.path)
    reader = SegmentReader.open(file.path)
    try:
        begins, ends = reader.times()
        head = reader.head()
    finally:
        reader.close()
    last_seq = head.seq if head else file.first - 1
    return Segment(file, size, begins, ends, last_seq, closed, changed_at_ms)


def plan(segments: Sequence[Segment], limits: Retention, now_ms: int, may_go: MayGo) -> Plan:
    """What the limits say must go, and what of it may. The newest segment never does."""
    total = sum(segment.size_bytes for segment in segments)
    going: list[Segment] = []
    ended = _ended_ms(segments, now_ms)
    for (segment, following), ended_ms in zip(pairwise(segments), ended, strict=False):
        old = 0 < limits.age_ms < now_ms - ended_ms
        if not old and not 0 < limits.size_bytes < total:
            break
        reason = may_go(segment, following) if segment.closed else "it is not sealed yet"
        if reason:
            rest = segments[len(going) : -1]
            return Plan(tuple(going), tuple(rest[:1]), reason)
        going.append(segment)
        total -= segment.size_bytes
    return Plan(tuple(going), ())


def _ended_ms(segments: Sequence[Segment], now_ms: int) -> list[int]:
    """When each segment ended: with its last row, if the clock that told its time was right.

    It was not if that time is still to come: then the segment ended when the next one began, or
    when its file was written to last, or before a later one ended. And none ended before a row that
    went before.
    """
    ended: list[int] = []
    next_began_ms: int | None = None
    for segment in reversed(segments):
        at_latest_ms = ended[-1] if ended else now_ms
        told = (segment.last_at_ms, next_began_ms, segment.changed_at_ms)
        ended.append(next((at for at in told if at is not None and at <= now_ms), at_latest_ms))
        next_began_ms = segment.first_at_ms
    reached_ms = 0
    for place, segment in enumerate(segments):
        rows = (segment.first_at_ms, segment.last_at_ms)
        reached_ms = max([reached_ms, *(at for at in rows if at is not None and at <= now_ms)])
        ended[-1 - place] = max(ended[-1 - place], reached_ms)
    return ended[::-1]


def unlink(going: Sequence[Segment]) -> None:
    """Unlink them, the oldest first, so that a crash leaves no hole. Raises OSError."""
    for segment in going:
        remove_file(segment.file.path)
    if going:
        sync_directory(going[0].file.path.parent)
