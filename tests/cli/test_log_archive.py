"""``trioroute log archive`` as processes: two to one target, and onto a disk without room."""

import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.conformance import some_entries
from eventlog.ownership import Ownership
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from tests.ended import ended
from tests.small_disk import fill, mounted
from trioroute.events.views import VIEWS


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made") / "log"
    limits = SegmentLimits(size_bytes=100_000)
    with closing(SqliteStore.open(directory, sync="normal", limits=limits, views=VIEWS)) as store:
        for n in range(0, 10_000, 500):
            store.append("a", some_entries(500, n), n)
    return directory


def begin(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trioroute", "log", "archive", *map(str, words)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def told(process: subprocess.Popen[str]) -> tuple[int, str]:
    with ended(process):
        _, stderr = process.communicate(timeout=100)
    return process.returncode, stderr


@pytest.mark.parametrize("option", [[], ["--one-file"]])
def test_of_two_at_once_one_copies_and_the_other_says_who(
    log: Path, tmp_path: Path, option: list[str]
) -> None:
    target = tmp_path / "copy"
    two = [begin(log, target, *option) for _ in range(2)]
    with ended(*two):
        ends = [told(process) for process in two]
    assert 0 in [code for code, _ in ends], ends
    for code, stderr in ends:
        if code:
            late = bool(option) and f"{target} is there already" in stderr
            # its number is not in the file yet, or any more, for some microseconds
            assert late or re.search("is being written by (process [0-9]|another )", stderr), stderr
            assert str(target) in stderr
    with closing(SqliteReader.open(target)) as copy:
        assert copy.head().seq == 10_000
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
    assert option or not list(target.glob("*.new*"))


@pytest.mark.parametrize(
    ("option", "part", "draft"),
    [([], "", "log-1.sqlite.new"), (["--one-file"], ".part", "copy.new")],
)
def test_a_target_that_is_taken_is_told_with_its_process_and_left_alone(
    log: Path, tmp_path: Path, option: list[str], part: str, draft: str
) -> None:
    place = tmp_path / f"copy{part}"
    place.mkdir()
    (place / draft).write_bytes(b"being made")
    owner = Ownership.take(place)
    code, stderr = told(begin(log, tmp_path / "copy", *option))
    assert code == 2
    assert f"{place} is being written by process " in stderr
    assert "wait until that has ended, or give another target" in stderr
    assert (place / draft).read_bytes() == b"being made"
    owner.release()
    assert told(begin(log, tmp_path / "copy", *option)) == (0, "")
    assert not (tmp_path / "copy.part").exists()
    assert option or not list(place.glob("*.new*")), "what a killed copy left is removed"


@pytest.mark.parametrize("room", [0, 4096, 40_000, 300_000])
@pytest.mark.parametrize("option", [[], ["--one-file"]])
def test_without_room_the_disk_is_named_and_no_draft_is_left(
    log: Path, tmp_path: Path, option: list[str], room: int
) -> None:
    with mounted(tmp_path / "disk", 1 << 20) as disk:
        ballast = fill(disk)
        with ballast.open("r+b") as file:
            file.truncate(max(ballast.stat().st_size - room, 0))
        target = disk / "copy"
        code, stderr = told(begin(log, target, *option))
        assert code == 2
        assert str(target) in stderr
        assert str(log) not in stderr
        assert "free room on its disk" in stderr
        assert f"no room for it on the disk of {disk}" in stderr or "owner.lock" in stderr
        assert not list(disk.rglob("*.new*"))
        assert not list(disk.rglob("*.part*"))
        shutil.rmtree(target, ignore_errors=True)


def test_damage_in_the_log_is_told_of_the_log(log: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(log, bad)
    with (bad / "log-1.sqlite").open("r+b") as file:
        file.seek(8192)
        file.write(b"x" * 65_536)
    code, stderr = told(begin(bad, tmp_path / "one.sqlite", "--one-file"))
    assert code == 1
    assert f"{bad / 'log-1.sqlite'}: damaged" in stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad"]


def test_another_log_than_the_one_that_is_there_is_refused_in_one_line(
    log: Path, tmp_path: Path
) -> None:
    target = tmp_path / "copy"
    assert told(begin(log, target)) == (0, "")
    with closing(SqliteStore.open(tmp_path / "other", sync="normal", views=VIEWS)) as other:
        other.append("b", some_entries(7), 0)
        head = other.head()
    before = {path: path.stat().st_mtime_ns for path in target.iterdir() if path.suffix != ".lock"}
    code, stderr = told(begin(tmp_path / "other", target))
    assert code == 2
    assert stderr.startswith(f"Error: {target} holds a copy of another log")
    assert f"{tmp_path / 'other'} goes on otherwise, with {head};" in stderr
    assert len(stderr.splitlines()) == 1
    assert before == {path: path.stat().st_mtime_ns for path in before}
