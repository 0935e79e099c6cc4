"""Snapshots of a running router, made by a process of its own."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from eventlog.segments import list_segments
from eventlog.snapshots import Snapshots
from eventlog.sqlite import SegmentLimits, SqliteStore
from tests.replay.rig import STREAM, busy_day
from trioroute.upkeep import Snapshotting

REAL = (sys.executable, "-m", "trioroute")


def written(directory: Path, limits: SegmentLimits | None = None) -> int:
    entries = busy_day(60).log.entries
    store = SqliteStore.open(directory, sync="normal", limits=limits)
    for n in range(0, len(entries), 50):
        store.append(STREAM, entries[n : n + 50], n)
    store.close()
    return len(entries)


def upkeep(directory: Path, position: int, **changes: object) -> Snapshotting:
    made = Snapshotting(directory, lambda: position, 0, lambda: 0, look_every_s=0.01, pause_s=0.01)
    for name, value in {"command": REAL, **changes}.items():
        setattr(made, name, value)
    return made


async def until(condition: Callable[[], object], keeper: Snapshotting) -> None:
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keeper.run)
            while not condition():  # noqa: ASYNC110  # files appear, nobody tells
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()


async def test_a_snapshot_is_made_once_enough_events_came(tmp_path: Path) -> None:
    position = written(tmp_path)
    keeper = upkeep(tmp_path, position, snapshot_events=position)
    await until(lambda: keeper.snapshot_at == position, keeper)
    assert Snapshots(tmp_path).seqs() == [position]


async def test_fewer_events_make_none(tmp_path: Path) -> None:
    position = written(tmp_path)
    keeper = upkeep(tmp_path, position, snapshot_events=position + 1)
    with trio.move_on_after(0.3):
        await keeper.run()
    assert Snapshots(tmp_path).seqs() == []


async def test_a_closed_segment_gets_a_snapshot_at_its_end(tmp_path: Path) -> None:
    position = written(tmp_path, SegmentLimits(size_bytes=1))
    borders = [file.first - 1 for file in list_segments(tmp_path)[1:]]
    assert borders
    await until(lambda: set(borders) <= set(Snapshots(tmp_path).seqs()), upkeep(tmp_path, position))


async def test_a_border_that_no_snapshot_can_be_made_of_is_tried_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    position = written(tmp_path, SegmentLimits(size_bytes=1))
    list_segments(tmp_path)[0].path.unlink()
    keeper = upkeep(tmp_path, position)
    await until(lambda: keeper.snapshot_at == position, keeper)
    await until(lambda: keeper.hopeless, keeper)
    assert not await keeper._snapshot_is_due()
    assert caplog.records == []


async def test_a_snapshot_that_fails_is_told_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    position = written(tmp_path)
    fails = (sys.executable, "-c", "import sys; sys.exit('no room on the disk')")
    keeper = upkeep(tmp_path, position, snapshot_events=1, command=fails)
    with caplog.at_level(logging.ERROR):
        await until(lambda: len(caplog.records) >= 2, keeper)
    assert "no room on the disk" in caplog.text
    keeper.command = REAL
    await until(lambda: keeper.snapshot_at == position, keeper)


async def test_the_programs_of_the_path_are_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    position = written(tmp_path)
    made = Snapshotting(
        tmp_path, lambda: position, 0, lambda: 0, look_every_s=0.01, snapshot_events=1
    )
    await until(lambda: made.snapshot_at == position, made)
    assert Snapshots(tmp_path).seqs() == [position]


async def test_a_process_that_cannot_be_started_is_told_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    position = written(tmp_path)
    keeper = upkeep(tmp_path, position, snapshot_events=1, command=("no-such-program",))
    with caplog.at_level(logging.ERROR):
        await until(lambda: len(caplog.records) >= 2, keeper)
    assert "no snapshot of the log was made: [Errno 2]" in caplog.text
