"""What may be retired of a router's log: one rule for ``log prune`` and a running router."""

from collections.abc import Callable
from pathlib import Path

import attrs

from eventlog.errors import NO_ROOM, LogError
from eventlog.reading import SqliteReader
from eventlog.retention import MayGo, Plan, Retention, Segment, look, plan, unlink
from eventlog.segments import list_segments
from eventlog.snapshots import BadSnapshot, Snapshots, check_belongs
from eventlog.sqlite_segment import seal
from trioroute.archived import forget_retired, is_archived
from trioroute.row_index import searched
from trioroute.snapshot import FOLD, parse_states

NOT_ARCHIVED = "log.archive has not taken it yet"


@attrs.frozen
class Pruned:
    """What ``prune`` did. ``no_room`` is what the disk said where it took no snapshot without which
    segments had to stay."""

    gone: tuple[Segment, ...]
    left: Plan
    no_room: OSError | None = None


def prune(
    log: Path,
    limits: Retention,
    now_ms: int,
    *,
    archived_only: bool,
    make: Callable[[], object],
) -> Pruned:
    """Unlink what may go, and only then ``make`` the snapshots without which the rest may not: on a
    full disk they find room in what was freed. Raises LogError, OSError, and what ``make`` raises.
    """
    gone: list[Segment] = []
    made, no_room = False, None
    while True:
        left = plan_retention(log, limits, now_ms, archived_only=archived_only)
        retire(log, left)
        gone += left.going
        wanting = left.kept_back and left.reason != NOT_ARCHIVED
        if not wanting or made or (no_room and not left.going):
            return Pruned(tuple(gone), left, no_room if wanting else None)
        try:
            make()
            made, no_room = True, None
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            no_room = error


def plan_retention(log: Path, limits: Retention, now_ms: int, *, archived_only: bool) -> Plan:
    """What must and may go by ``limits``. Raises LogError, OSError."""
    for file in list_segments(log)[:-1]:
        seal(file.path)
    with SqliteReader.open(log) as reader:
        return plan(look(log), limits, now_ms, _judge(log, reader, archived_only))


def _judge(log: Path, reader: SqliteReader, archived_only: bool) -> MayGo:
    snapshots = Snapshots(log)

    def may_go(segment: Segment, following: Segment) -> str:
        if archived_only and not is_archived(segment.file.path):
            return NOT_ARCHIVED
        reason = lacks(following)
        return "" if reason and _has_no_past(reader, snapshots, segment) else reason

    def lacks(following: Segment) -> str:
        try:
            snapshot = snapshots.read(following.file.first - 1)
            if snapshot.fold != FOLD:
                raise BadSnapshot("it was made by a release whose state has another shape")
            check_belongs(reader, snapshot.head)
            parse_states(snapshot.payload)
        except (BadSnapshot, LogError) as error:
            return (
                f"the snapshot at the beginning of {following.file.path.name} is missing: {error}"
            )
        return ""

    return may_go


def _has_no_past(reader: SqliteReader, snapshots: Snapshots, oldest: Segment) -> bool:
    """Whether nothing tells any more of what went before the oldest segment, as after an upgrade
    that changed the fold, and no ``Gap`` in it restates the state: then it tells nothing of the
    rows behind it that a snapshot could, and keeping it for that would keep it for ever."""
    before = oldest.file.first - 1
    if before < 1 or not _is_gone(snapshots, before):
        return False
    gaps = searched(reader, ("Gap",), ('"state"',), before, oldest.last_seq)
    return next(gaps, None) is None


def _is_gone(snapshots: Snapshots, seq: int) -> bool:
    """Not there, or of another fold; one that cannot be read just now may be there."""
    fold = snapshots.fold_of(seq)
    return not snapshots.path(seq).exists() if fold is None else fold != FOLD


def retire(log: Path, decided: Plan) -> None:
    """Unlink what a plan says, and what belongs to it. Raises OSError."""
    unlink(decided.going)
    if decided.going:
        forget_retired(log)
