"""Folding a log and keeping what was folded: snapshots of every router's state in it.

A snapshot is made from the log alone, never from the live state: by a process of its own, so that
the traffic does not wait for it. It serves restarts, ``replay`` and the retention of the log.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import orjson

from eventlog import Head, LogDamaged, LogReader, Record
from eventlog.chain import verify_chain
from eventlog.reading import SqliteReader
from eventlog.segments import list_segments
from eventlog.snapshots import BadSnapshot, Snapshot, Snapshots, Warn
from trioroute.counted import plural
from trioroute.events import Gap, UnreadableEvent, decode
from trioroute.events.codec import NEWER
from trioroute.projections import State, apply
from trioroute.projections.freeze import CannotThaw, fingerprint, freeze, thaw

PAGE = 2000
KEPT_NEWEST = 2
"""The newest is kept, and one before it, however near they are to others."""

SPACING_ROWS = 20_000
"""Rows between two that are kept: what explaining a decision folds at most, in some tenths of a
second."""

SPACING_TIMES = 10
ROW_BYTES = 250
"""Kept ones take a tenth of the log's bytes at most: large ones (very many pins) lie further apart.
So many bytes of the log is a row, about."""

LONG_ROWS = 200_000
"""A fold of so many is told of: ten times what there is between snapshots, a second or two."""

FOLD = fingerprint()
COMPRESSION = 1

Frozen = dict[str, Any]
"""Frozen states by stream."""


def dump(states: Mapping[str, State]) -> bytes:
    """States by stream as the payload of a snapshot."""
    return zlib.compress(_plain(states), COMPRESSION)


def tells(kept: Snapshot, head: Head, states: Mapping[str, State]) -> bool:
    """Whether a snapshot is of these states after that row, in all that is frozen of them."""
    if kept.fold != FOLD or kept.head != head:
        return False
    try:
        return zlib.decompress(kept.payload) == _plain(states)
    except zlib.error:
        return False


def _plain(states: Mapping[str, State]) -> bytes:
    plain = {stream: freeze(state) for stream, state in states.items()}
    return orjson.dumps(plain, option=orjson.OPT_NON_STR_KEYS)


def parse(payload: bytes) -> Frozen:
    """The reverse of ``dump``, but for the thawing. Raises BadSnapshot."""
    try:
        found: Frozen = orjson.loads(zlib.decompress(payload))
    except (zlib.error, ValueError) as error:
        raise BadSnapshot(f"its payload cannot be read: {error}") from error
    return found


def parse_states(payload: bytes) -> dict[str, State]:
    """All states of a payload. Raises BadSnapshot."""
    try:
        return {stream: thaw(frozen) for stream, frozen in parse(payload).items()}
    except CannotThaw as error:
        raise BadSnapshot(str(error)) from error


_VERIFY = "trioroute log verify tells what holds"


def changed_words(error: UnreadableEvent) -> str:
    """Why a row cannot be read that was changed: a kind that no release knows, or a schema above
    all, may come of one bit."""
    what = str(error).removesuffix(NEWER)
    return f"{what}: the row is not as it was written, its chain value tells; {_VERIFY}"


def unreadable(
    stream: str, version: int, seq: int, error: UnreadableEvent, *, changed: bool
) -> UnreadableEvent:
    """The error that tells where the row is, whether it was ``changed``, and what helps."""
    told = changed_words(error) if changed else f"{error}; {_VERIFY}; use the release that wrote it"
    return UnreadableEvent(
        f"{stream}/{version}, seq {seq}: {told}; restore the log from a copy, or start with an "
        "empty log directory"
    )


@attrs.define
class LogFold:
    """The states of all routers of a log after row ``head``.

    ``inexact`` are streams whose beginning was retired with no usable snapshot: their states tell
    what the kept rows say and no more, until the log restates them (``Gap``).
    """

    states: dict[str, State] = attrs.field(factory=dict)
    head: Head = attrs.field(factory=Head)
    inexact: set[str] = attrs.field(factory=set)

    def take(self, record: Record) -> None:
        """Fold the next row. Raises UnreadableEvent, LogDamaged where versions are missing."""
        state = self.states.get(record.stream)
        if state is None:
            state = self.states[record.stream] = State()
            if record.version > 1:
                state.position = record.version - 1
                self.inexact.add(record.stream)
        if record.version != state.position + 1:
            raise LogDamaged(record.stream, record.seq, f"gap before version {record.version}")
        try:
            event = decode(record.kind, record.schema, record.body)
        except UnreadableEvent as error:
            changed = self._was_changed(record)
            at = record.stream, record.version, record.seq
            raise unreadable(*at, error, changed=changed) from error
        apply(state, record.version, record.at_ms, event)
        if isinstance(event, Gap) and event.state is not None:
            self.inexact.discard(record.stream)
        self.head = Head(record.seq, record.chain)

    def _was_changed(self, record: Record) -> bool:
        if self.head.seq != record.seq - 1:
            return False  # it is the first that is kept: nothing tells
        try:
            verify_chain([record], self.head)
        except LogDamaged:
            return True
        return False


def begin_fold(
    reader: LogReader, snapshots: Snapshots, *, until: int | None = None, warn: Warn | None = None
) -> LogFold:
    """The fold from the newest usable snapshot after a row at most ``until``, else from nothing."""
    found = snapshots.newest(reader, FOLD, parse_states, until=until, warn=warn)
    return LogFold(found[1], found[0]) if found is not None else LogFold()


def slow_fold(reader: LogReader, snapshots: Snapshots, after: int, until: int) -> str:
    """What to say where the rows with ``after < seq <= until`` must be folded first: why, and what
    helps. Nothing where that does not take long."""
    oldest = reader.read(0, 1) if until - after >= LONG_ROWS else []
    after = max(after, oldest[0].seq - 1) if oldest else until
    if until - after < LONG_ROWS:
        return ""
    between = [seq for seq in snapshots.seqs() if after < seq <= until]
    why = "no snapshot lies nearer"
    if between:
        foreign = all(snapshots.fold_of(seq) != FOLD for seq in between)
        why = f"the {plural(len(between), 'snapshot')} there cannot be used"
        if foreign:
            why += ", being of another release"
    return (
        f"{plural(until - after, 'event')} must be folded first, which takes a while: {why}; "
        f"`trioroute log snapshot {snapshots.directory.parent}` makes new ones, and so does a "
        "router that runs"
    )


def foreign_only(snapshots: Snapshots, rows: int) -> str:
    """What to say of a log of so many rows that several processes could read, if its snapshots were
    not all of another release. Nothing where that would spare little."""
    seqs = snapshots.seqs() if rows >= LONG_ROWS else []
    if not seqs or any(snapshots.fold_of(seq) == FOLD for seq in seqs):
        return ""
    return (
        f"the {plural(len(seqs), 'snapshot')} there cannot be used, being of another release, so "
        f"one process reads it all; `trioroute log snapshot {snapshots.directory.parent}` makes "
        "new ones, and so does a router that runs"
    )


def rows_after(reader: LogReader, after: int, until: int) -> Iterator[Record]:
    """The rows with ``after < seq <= until``, page by page."""
    while after < until:
        page = reader.read(after, min(PAGE, until - after))
        if not page:
            return
        yield from page
        after = page[-1].seq


Progress = Callable[[int, int], None]
"""Told the last row folded and the last there is."""


@attrs.frozen
class Made:
    """What ``make_snapshots`` did: after which rows it wrote one, and how many rows it folded."""

    seqs: tuple[int, ...]
    folded: int


def make_snapshots(
    log: Path, *, warn: Warn | None = None, progress: Progress | None = None
) -> Made:
    """Fold what came since the newest usable snapshot, and write new ones: at the beginning of each
    segment that was passed, every ``SPACING_ROWS`` rows or more, and at the end. Of older ones that
    lie nearer together, most are removed.

    Raises LogError, UnreadableEvent, OSError.
    """
    snapshots = Snapshots(log)
    with SqliteReader.open(log) as reader:
        until = reader.head().seq
        borders = [file.first - 1 for file in list_segments(log) if 1 < file.first <= until]
        fold = _fold_for(reader, snapshots, borders, until, warn)
        begun = fold.head.seq
        due = [seq for seq in borders if seq > begun]
        spaced = _next_after(snapshots, begun)
        written: list[int] = []
        for record in rows_after(reader, begun, until):
            here = fold.head.seq
            at_border = bool(due) and record.seq > due[0] and due.pop(0) == here
            if (at_border or here >= spaced) and not fold.inexact:
                written.append(_write(snapshots, fold))
                spaced = _next_after(snapshots, here)
            fold.take(record)
            if progress is not None and record.seq % PAGE == 0:
                progress(record.seq, until)
        if fold.head.seq > begun and not fold.inexact:
            written.append(_write(snapshots, fold))
        oldest = reader.read(0, 1)
    snapshots.keep_only(_worth_keeping(snapshots, borders, oldest[0].seq - 1 if oldest else 0))
    return Made(tuple(written), fold.head.seq - begun)


def _next_after(snapshots: Snapshots, seq: int) -> int:
    """The row from which on another one is worth its room, after one at row ``seq``."""
    path = snapshots.path(seq)
    size = path.stat().st_size if path.exists() else 0
    return seq + max(SPACING_ROWS, SPACING_TIMES * size // ROW_BYTES)


def _worth_keeping(snapshots: Snapshots, borders: Sequence[int], begins_after: int) -> set[int]:
    """Those at borders, the newest, and of the others as many as are not too near to each other."""
    seqs = snapshots.seqs()
    kept = {*borders, *[seq for seq in seqs if seq not in borders][:KEPT_NEWEST]}
    spaced = _next_after(snapshots, begins_after)
    for seq in sorted(seq for seq in seqs if seq >= begins_after):
        if seq >= spaced or seq in borders:
            kept.add(seq)
            spaced = _next_after(snapshots, seq)
    return kept


def _fold_for(
    reader: LogReader, snapshots: Snapshots, borders: Sequence[int], until: int, warn: Warn | None
) -> LogFold:
    """The newest fold from which all that borders lack can be made, if there is such a one."""
    have = snapshots.seqs()
    missing = [seq for seq in borders if seq not in have]
    if missing:
        fold = begin_fold(reader, snapshots, until=min(missing), warn=warn)
        if fold.head.seq or reader.read(0, 1)[0].seq == 1:
            return fold
    return begin_fold(reader, snapshots, until=until, warn=warn)


def _write(snapshots: Snapshots, fold: LogFold) -> int:
    snapshots.write(Snapshot(fold.head, FOLD, dump(fold.states)))
    return fold.head.seq
