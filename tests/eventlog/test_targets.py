"""A copy never goes onto the log that it is made from, whatever name it is given by."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eventlog.conformance import some_entries
from eventlog.sqlite import SqliteStore
from eventlog.sqlite_copy import copy_log
from eventlog.sqlite_one_file import copy_into_one_file
from eventlog.targets import TargetIsLog, TargetTaken, refuse_the_log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    store = SqliteStore.open(tmp_path / "home" / "log", sync="normal")
    store.append("a", some_entries(3), 0)
    yield tmp_path / "home" / "log"
    assert store.append("a", some_entries(1, 3), 3).first == 4, "its file is still its own"
    store.close()


def contents(directory: Path) -> dict[str, tuple[int, bytes]]:
    found = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_ino, path.read_bytes()) for path in found}


def itself(log: Path) -> Path:
    return log


def below(log: Path) -> Path:
    return log / "sub" / "deeper"


def above(log: Path) -> Path:
    return log.parent


def dotted(log: Path) -> Path:
    return log.parent / "no" / ".." / "log"


def symlink(log: Path) -> Path:
    link = log.parent.parent / "link"
    link.symlink_to(log)
    return link


def below_a_symlink(log: Path) -> Path:
    return symlink(log) / "sub"


def with_a_hard_link(log: Path) -> Path:
    target = log.parent.parent / "linked"
    target.mkdir()
    (target / "log-1.sqlite-wal").hardlink_to(log / "log-1.sqlite-wal")
    return target


def with_a_symlink(log: Path) -> Path:
    target = log.parent.parent / "linked"
    target.mkdir()
    (target / "log-1.sqlite").symlink_to(log / "log-1.sqlite")
    return target


PLACES = [itself, below, above, dotted, symlink, below_a_symlink, with_a_hard_link, with_a_symlink]


@pytest.mark.parametrize("place", PLACES)
def test_a_copy_is_refused_before_anything_is_written(
    log: Path, tmp_path: Path, place: Callable[[Path], Path]
) -> None:
    target = place(log)
    before = contents(tmp_path)
    with pytest.raises(TargetIsLog, match="give a place outside of the log's directory"):
        copy_log(log, target)
    assert contents(tmp_path) == before
    assert not (log / "sub").exists()


def onto_a_segment(log: Path) -> Path:
    return log / "log-1.sqlite"


def new_in_the_log(log: Path) -> Path:
    return log / "week.sqlite"


def hard_link(log: Path) -> Path:
    (log.parent / "other.sqlite").hardlink_to(log / "log-1.sqlite")
    return log.parent / "other.sqlite"


def dangling(log: Path) -> Path:
    (log.parent / "week.sqlite").symlink_to(log / "week.sqlite")
    return log.parent / "week.sqlite"


@pytest.mark.parametrize("place", [onto_a_segment, new_in_the_log, hard_link, dangling])
def test_one_file_is_refused_there_too(
    log: Path, tmp_path: Path, place: Callable[[Path], Path]
) -> None:
    target = place(log)
    before = contents(tmp_path)
    with pytest.raises(TargetIsLog, match=r"log, which must not be written over"):
        copy_into_one_file(log, target, {})
    assert contents(tmp_path) == before


def test_beside_a_log_that_is_one_file_there_is_room(log: Path) -> None:
    refuse_the_log(log / "log-1.sqlite", log / "events.jsonl")
    for name in ("log-1.sqlite", "log-1.sqlite-wal"):
        with pytest.raises(TargetIsLog):
            refuse_the_log(log / "log-1.sqlite", log / name)


def test_nothing_is_copied_onto_a_log_that_is_written(log: Path, tmp_path: Path) -> None:
    writes = (
        "import sys; from pathlib import Path; from eventlog.sqlite import SqliteStore;"
        " store = SqliteStore.open(Path(sys.argv[1])); print('open', flush=True); input()"
    )
    other = tmp_path / "other"
    with subprocess.Popen(
        [sys.executable, "-c", writes, str(other)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        before = contents(other)
        with pytest.raises(TargetTaken, match=f"being written by process {writer.pid}, another"):
            copy_log(log, other)
        assert contents(other) == before
        writer.communicate(b"\n")
    assert copy_log(log, other).new
