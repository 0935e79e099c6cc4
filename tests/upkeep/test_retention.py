"""Retention of a router's log: what goes, what is kept back and why, and what is told after it."""

import logging
from contextlib import closing
from pathlib import Path

import pytest
import trio

from eventlog.retention import Retention
from eventlog.segments import list_segments
from eventlog.snapshots import Snapshots
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from tests.replay.rig import STREAM, busy_day
from trioroute.archived import mark_archived, mark_of
from trioroute.recovery import recover
from trioroute.retain import plan_retention
from trioroute.snapshot import make_snapshots
from trioroute.upkeep import Retaining

SMALL = Retention(size_bytes=300_000)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    entries = busy_day(700).log.entries
    limits = SegmentLimits(size_bytes=150_000)
    with closing(SqliteStore.open(tmp_path / "log", sync="normal", limits=limits)) as store:
        for n in range(0, len(entries), 50):
            store.append(STREAM, entries[n : n + 50], n)
    assert len(list_segments(tmp_path / "log")) >= 4
    return tmp_path / "log"


def retaining(log: Path, *, archives: bool = False, limits: Retention = SMALL) -> Retaining:
    return Retaining(log, lambda: limits, lambda: archives, lambda: 0, look_every_s=0.01)


async def look_for_a_while(retaining: Retaining) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(retaining.run)
        await some_looks(retaining)
        nursery.cancel_scope.cancel()


async def some_looks(retaining: Retaining) -> None:
    """Until it has looked ten times more: it asks for its limits each time."""
    limits, looked = retaining.limits, 0

    def counted() -> Retention:
        nonlocal looked
        looked += 1
        return limits()

    retaining.limits = counted
    with trio.fail_after(100):
        while looked <= 10:  # noqa: ASYNC110  # it tells nobody
            await trio.sleep(0.01)
    retaining.limits = limits


async def test_disk_use_stays_under_the_cap_and_the_state_is_the_same_after_a_restart(
    log: Path,
) -> None:
    with SqliteReader.open(log) as reader:
        whole = recover(reader, STREAM).state
    make_snapshots(log)
    await look_for_a_while(retaining(log))
    assert list_segments(log)[0].first > 1
    assert sum(file.path.stat().st_size for file in list_segments(log)) <= SMALL.size_bytes
    with SqliteReader.open(log) as reader:
        assert recover(reader, STREAM, Snapshots(log)).state == whole


async def test_without_a_snapshot_nothing_goes_and_it_is_told_once(
    log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = list_segments(log)
    with caplog.at_level(logging.WARNING):
        await look_for_a_while(retaining(log))
    assert list_segments(log) == before
    (told,) = caplog.messages
    assert "log-1.sqlite should be retired but is kept: the snapshot at the beginning of" in told


@pytest.mark.parametrize("damage", ["torn", "of another fold", "of another log"])
async def test_a_snapshot_that_cannot_be_used_keeps_its_segment(log: Path, damage: str) -> None:
    make_snapshots(log)
    snapshots = Snapshots(log)
    border = list_segments(log)[1].first - 1
    good = snapshots.read(border)
    if damage == "torn":
        path = snapshots.path(border)
        path.write_bytes(path.read_bytes()[:-9])
    else:
        import attrs

        head = attrs.evolve(good.head, chain=bytes(16))
        changes = {"of another fold": {"fold": "x"}, "of another log": {"head": head}}[damage]
        snapshots.write(attrs.evolve(good, **changes))  # type: ignore[arg-type]  # by name
    decided = plan_retention(log, SMALL, 0, archived_only=False)
    assert decided.going == ()
    assert "is missing" in decided.reason


async def test_what_is_not_archived_yet_is_kept(
    log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_snapshots(log)
    oldest = list_segments(log)[0].path
    with caplog.at_level(logging.WARNING):
        await look_for_a_while(retaining(log, archives=True))
    assert oldest.exists()
    assert "log.archive has not taken it yet" in caplog.text
    mark_archived(oldest)
    await look_for_a_while(retaining(log, archives=True))
    assert not oldest.exists()
    assert not mark_of(oldest).exists()
    assert list_segments(log)[0].path.exists()


async def test_limits_of_0_keep_everything(log: Path) -> None:
    make_snapshots(log)
    before = list_segments(log)
    await look_for_a_while(retaining(log, limits=Retention()))
    assert list_segments(log) == before


async def test_what_is_new_is_acted_on_at_the_next_look_and_nothing_is_judged_twice(
    log: Path,
) -> None:
    limits = Retention(size_bytes=1 << 40)
    task = Retaining(log, lambda: limits, lambda: False, lambda: 7, look_every_s=0.01)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(task.run)
        await some_looks(task)
        assert task.deeds.ok == 1
        limits = SMALL
        await some_looks(task)
        assert (task.deeds.ok, task.deeds.waiting) == (2, 1), "no snapshot is there"
        make_snapshots(log)
        await some_looks(task)
        assert list_segments(log)[0].first > 1
        judged = task.deeds.ok
        await some_looks(task)
        assert task.deeds.ok == judged
        assert (task.deeds.waiting, task.deeds.last_success_ms) == (0, 7)
        assert task.deeds.size_bytes > 150_000
        nursery.cancel_scope.cancel()


async def test_without_news_segments_are_judged_again_after_a_while(log: Path) -> None:
    task = Retaining(
        log,
        lambda: SMALL,
        lambda: False,
        lambda: 7,
        look_every_s=0.01,
        at_least_every_s=0.02,
    )
    await look_for_a_while(task)
    assert task.deeds.ok >= 3


OLD = Retention(age_ms=86_400_000)
AHEAD_MS = 10**15


async def test_nothing_goes_for_its_age_before_a_wrong_clock_had_time_to_be_set(log: Path) -> None:
    make_snapshots(log)
    before = list_segments(log)
    task = Retaining(log, lambda: OLD, lambda: False, lambda: AHEAD_MS, look_every_s=0.01)
    task.wall_ms = lambda: AHEAD_MS
    task.clock_settles_s = 1000.0
    await look_for_a_while(task)
    assert list_segments(log) == before
    task.clock_settles_s = 0.0
    await look_for_a_while(task)
    assert len(list_segments(log)) == 1


async def test_a_run_that_began_with_a_clock_ahead_retires_by_the_one_that_was_set_right(
    log: Path,
) -> None:
    make_snapshots(log)
    before = list_segments(log)
    task = Retaining(log, lambda: OLD, lambda: False, lambda: AHEAD_MS, look_every_s=0.01)
    task.wall_ms, task.clock_settles_s = lambda: 0, 0.0
    await look_for_a_while(task)
    assert list_segments(log) == before
