"""What may be retired of a log whose snapshots are all of a release with another fold."""

from contextlib import closing
from pathlib import Path

import pytest

from eventlog.retention import Retention
from eventlog.segments import list_segments
from eventlog.snapshots import Snapshots
from eventlog.sqlite import SegmentLimits, SqliteStore
from tests.replay.rig import STREAM, busy_day
from tests.rig import Rig
from trioroute.policy import commands as c
from trioroute.recovery import recover
from trioroute.retain import Pruned, prune
from trioroute.snapshot import make_snapshots

OLD = "of another release"
LIMITS = SegmentLimits(size_bytes=60_000)
KEPT = Retention(size_bytes=1)
"""All must go that may."""


def under(release: str, patch: pytest.MonkeyPatch) -> None:
    for module in ("snapshot", "retain", "recovery"):
        patch.setattr(f"trioroute.{module}.FOLD", release)


def retain(log: Path) -> Pruned:
    return prune(log, KEPT, 1 << 50, archived_only=False, make=lambda: make_snapshots(log))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """It ran for long: its beginning was retired, and a snapshot of that release tells of it."""
    entries = busy_day(600).log.entries
    with closing(SqliteStore.open(tmp_path / "log", sync="normal", limits=LIMITS)) as store:
        for n in range(0, len(entries), 20):
            store.append(STREAM, entries[n : n + 20], n)
    with pytest.MonkeyPatch.context() as patch:
        under(OLD, patch)
        make_snapshots(tmp_path / "log")
    for file in list_segments(tmp_path / "log")[:2]:
        file.path.unlink()
    assert len(list_segments(tmp_path / "log")) >= 4
    return tmp_path / "log"


def start_after_the_upgrade(log: Path) -> int:
    """What a router does that knows only the kept rows, and some scrapes after: the Gap's row."""
    with closing(SqliteStore.open(log, sync="normal", limits=LIMITS)) as store:
        found = recover(store, STREAM, Snapshots(log))
        assert found.lost
        begun, rig = found.state.position, Rig()
        rig.log.entries = [rig.log.entries[0]] * begun
        rig.router.state = found.state
        rig.at_ms = found.state.at_ms + 1000
        rig.start()
        rig.do(c.Restate(at_ms=rig.at_ms, lost=found.lost, from_ms=0, to_ms=rig.at_ms))
        gap = rig.state.position
        rig.live("d", "e")
        while len(rig.log.entries) - begun < 1000:
            rig.finish(rig.go())
        for n in range(begun, len(rig.log.entries), 20):
            store.append(STREAM, rig.log.entries[n : n + 20], n)
    return gap


def test_segments_of_before_an_upgrade_are_retired_after_it(log: Path) -> None:
    """No snapshot of this release can ever be made at their borders."""
    gap = start_after_the_upgrade(log)
    later = [file.first for file in list_segments(log) if file.first > gap]
    assert len(later) >= 2
    done = retain(log)
    assert done.left.kept_back == ()
    assert [file.first for file in list_segments(log)] == later[-1:]
    with closing(SqliteStore.open(log)) as store:
        assert recover(store, STREAM, Snapshots(log)).lost == 0


def test_the_one_that_restates_the_state_goes_only_once_a_snapshot_tells_of_it(log: Path) -> None:
    gap = start_after_the_upgrade(log)
    left = prune(log, KEPT, 1 << 50, archived_only=False, make=lambda: None).left
    (kept,) = left.kept_back
    assert kept.file.first <= gap <= kept.last_seq
    assert list_segments(log)[0] == kept.file


def test_one_whose_own_snapshot_cannot_be_read_is_kept(log: Path) -> None:
    """Another look may find it."""
    first = list_segments(log)[0].first
    Snapshots(log).path(first - 1).write_bytes(b"nothing that can be read")
    left = prune(log, KEPT, 1 << 50, archived_only=False, make=lambda: None).left
    assert [segment.file.first for segment in left.kept_back] == [first]
