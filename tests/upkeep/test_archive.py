"""log.archive: each closed segment once, oldest first, without a shell, until it works."""

import hashlib
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from eventlog.conformance import some_entries
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteStore
from tests.upkeep.alive import is_alive, is_ended
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


def hanging(tmp_path: Path) -> str:
    """A command that ends at no SIGTERM, neither it nor its child; it tells the pid of both."""
    script = tmp_path / "hang.sh"
    script.write_text(
        "#!/bin/sh\ntrap '' TERM\n"
        f"sleep 600 & echo $$ $! $1 >> {tmp_path / 'pids'}\n"
        "wait; wait; sleep 600\n"
    )
    script.chmod(0o755)
    return f"{script} {{segment}}"


def started(tmp_path: Path) -> list[int]:
    lines = (tmp_path / "pids").read_text().splitlines() if (tmp_path / "pids").exists() else []
    return [int(word) for line in lines for word in line.split()[:2]]


async def test_a_command_that_hangs_is_told_and_what_waits_is_counted_meanwhile(
    log: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archiving = archiving_of(log, hanging(tmp_path))
    archiving.tell_after_s = 0.05
    for path in unarchived(log)[1:]:
        path.rename(path.with_suffix(".away"))
    await until(lambda: archiving.deeds.waiting == 1 and len(started(tmp_path)) == 2, archiving)
    await until(lambda: "has run for 0 s" in caplog.text, archiving)
    assert (
        "log-1.sqlite, and 1 closed segment in all not archived yet: it is ended after"
        in caplog.text
    )

    def more() -> bool:
        for path in log.glob("*.away"):
            path.rename(path.with_suffix(".sqlite"))
        return archiving.deeds.waiting == 3

    await until(more, archiving)
    assert archiving.deeds.failed == 0
    for pid in started(tmp_path):
        await is_ended(pid)


async def test_another_command_takes_the_place_of_one_that_hangs(
    log: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    commands = [hanging(tmp_path)]
    archiving = Archiving(log, lambda: commands[-1], lambda: NOW_MS, look_every_s=0.01)

    def changed() -> bool:
        if started(tmp_path):
            commands.append("true {segment}")
        return not unarchived(log)

    await until(changed, archiving)
    assert "log.archive was changed: its command for " in caplog.text
    for pid in started(tmp_path):
        await is_ended(pid)


async def test_a_changed_command_does_not_wait_for_the_pause_after_a_failure(log: Path) -> None:
    commands = ["false {segment}"]
    archiving = Archiving(log, lambda: commands[-1], lambda: NOW_MS, look_every_s=0.01, pause_s=600)

    def changed() -> bool:
        if archiving.deeds.failed:
            commands.append("true {segment}")
        return not unarchived(log)

    await until(changed, archiving)
    assert archiving.deeds.failed == 1


async def test_what_a_killed_router_left_running_is_ended_before_another_is_run(
    log: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs = (
        "import sys, trio; from pathlib import Path; from trioroute.upkeep import Archiving;"
        "trio.run(Archiving(Path(sys.argv[1]), lambda: sys.argv[2], lambda: 0).run)"
    )
    command = hanging(tmp_path)
    words = [sys.executable, "-c", runs, str(log), command]
    router = await trio.lowlevel.open_process(words)
    with trio.fail_after(30):
        while not started(tmp_path):  # noqa: ASYNC110  # another process writes it
            await trio.sleep(0.05)
    router.kill()
    await router.wait()
    first = started(tmp_path)
    assert all(map(is_alive, first)), "nothing ends it with the router"

    def begun_again() -> bool:
        running = [is_alive(pid) for pid in started(tmp_path)]
        assert len(running) == 2 or not any(running[:2]), "never two at once"
        return len(running) == 4

    await until(begun_again, archiving_of(log, command))
    assert "a command that a router which was killed left running: it is ended" in caplog.text
    for pid in started(tmp_path):
        await is_ended(pid)
    await until(lambda: not unarchived(log), archiving_of(log, "true {segment}"))
