"""log.archive: each closed segment once, oldest first, without a shell, until it works."""

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from eventlog.conformance import some_entries
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteStore
from trioroute.archived import is_archived, mark_of, unarchived
from trioroute.upkeep import Archiving
from trioroute.upkeep.archive import words_of

NOW_MS = 77


@pytest.fixture
def log(tmp_path: Path) -> Path:
    directory = tmp_path / "a log; with 'odd' $NAMES"
    store = SqliteStore.open(directory, sync="normal", limits=SegmentLimits(size_bytes=1))
    for n in range(4):
        store.append("a", some_entries(1, n), n)
    store.close()
    return directory


def archiving_of(log: Path, command: str) -> Archiving:
    return Archiving(log, lambda: command, lambda: NOW_MS, look_every_s=0.01, pause_s=0.02)


async def until(condition: Callable[[], object], archiving: Archiving) -> None:
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(archiving.run)
            while not condition():  # noqa: ASYNC110  # files appear, nobody tells
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()


async def test_every_closed_segment_is_archived_once(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    target.mkdir()
    command = f"cp {{segment}} {target}/"
    archiving = archiving_of(log, command)
    await until(lambda: not archiving.deeds.waiting and not unarchived(log), archiving)
    closed = [file.path for file in list_segments(log)[:-1]]
    assert len(closed) == 3
    for path in closed:
        copy = target / path.name
        assert copy.read_bytes() == path.read_bytes()
        told = json.loads(mark_of(path).read_text())
        assert told["sha256"] == hashlib.sha256(copy.read_bytes()).hexdigest()
        copy.unlink()
    assert not is_archived(list_segments(log)[-1].path)
    assert (archiving.deeds.ok, archiving.deeds.failed, archiving.deeds.waiting) == (3, 0, 0)
    assert archiving.deeds.size_bytes == sum(path.stat().st_size for path in closed)
    assert archiving.deeds.last_success_ms == NOW_MS
    with trio.move_on_after(0.2):
        await archiving_of(log, command).run()
    assert list(target.iterdir()) == []


def test_a_path_is_one_word_and_no_shell_sees_it() -> None:
    path = Path("/a b/$(touch x);'\"")
    words = words_of("aws s3 cp {segment} 's3://b/{segment} x'", path)
    assert words == ["aws", "s3", "cp", str(path), f"s3://b/{path} x"]


async def test_a_failure_is_told_and_repeated_until_it_works(
    log: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "later"
    archiving = archiving_of(log, f"cp {{segment}} {target}/")
    with caplog.at_level(logging.ERROR):
        await until(lambda: len(caplog.records) >= 2, archiving)
    assert "log-1.sqlite, tried again later: exit code 1: cp: " in caplog.text
    assert unarchived(log)
    assert (archiving.deeds.ok, archiving.deeds.waiting) == (0, 3)
    assert archiving.deeds.failed >= 2
    target.mkdir()
    await until(lambda: not unarchived(log), archiving)


async def test_without_a_command_nothing_is_run(log: Path) -> None:
    with trio.move_on_after(0.2):
        await archiving_of(log, "").run()
    assert len(unarchived(log)) == 3


@pytest.mark.parametrize("fault", ["No space left on device", "File exists"])
async def test_a_segment_that_cannot_be_marked_is_told_and_tried_again(
    log: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    marks = log / "archived"
    draft = mark_of(list_segments(log)[0].path).with_suffix(".new")
    if fault == "File exists":
        marks.write_text("no directory")
    else:
        marks.mkdir()
        draft.symlink_to("/dev/full")
    archiving = archiving_of(log, "true {segment}")
    with caplog.at_level(logging.ERROR):
        await until(lambda: caplog.records, archiving)
    assert "log.archive failed for " in caplog.text
    assert "tried again later: it cannot be marked as archived: [Errno" in caplog.text
    assert fault in caplog.text
    assert not draft.is_symlink()
    if fault == "File exists":
        marks.unlink()
    await until(lambda: not unarchived(log), archiving)
