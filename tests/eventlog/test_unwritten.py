"""Word of what a run could not write, left in the lock file until a run wrote a row."""

import os
from pathlib import Path

import attrs
import pytest

from eventlog import Entry
from eventlog.lost_end import lost_end
from eventlog.ownership import LOCK_NAME, Ownership, cut_short, writer_of
from eventlog.sqlite import SqliteStore
from eventlog.unwritten import Unwritten, unwritten_in
from tests.small_disk import fill, mounted

LOST = Unwritten(after=7, events=468, from_ms=1_700_000_000_000, to_ms=1_700_000_030_000)


def test_a_path_whose_parents_are_not_there_is_a_log_to_be_made(tmp_path: Path) -> None:
    assert lost_end(tmp_path / "var" / "lib" / "log", "Stopped") is None


def test_two_runs_that_could_not_write_are_told_together(tmp_path: Path) -> None:
    for _ in range(2):
        store = SqliteStore.open(tmp_path)
        store.unwritten = attrs.evolve(LOST, events=4)
        store.close()
    told = cut_short(tmp_path)
    assert told == attrs.evolve(LOST, events=8)


def test_a_run_that_is_killed_before_its_first_row_takes_no_word_with_it(tmp_path: Path) -> None:
    owner = Ownership.take(tmp_path)
    owner.word = LOST
    owner.release()
    killed = Ownership.take(tmp_path)
    os.close(killed._descriptor)
    assert writer_of(tmp_path) == "gone"
    assert cut_short(tmp_path) is None
    assert Ownership.take(tmp_path).word == LOST


def test_a_line_comes_back_as_it_was_and_nothing_else_does() -> None:
    line = LOST.line()
    assert unwritten_in(line) == LOST
    for other in (b"", line[:-1], line + b"1", line.replace(b"468", b"-1"), b"4711 8:1 boot\n"):
        assert unwritten_in(other) is None


def test_who_could_not_write_its_end_leaves_word_that_a_run_without_a_row_keeps(
    tmp_path: Path,
) -> None:
    store = SqliteStore.open(tmp_path)
    assert (writer_of(tmp_path), cut_short(tmp_path)) == ("writing", None)
    store.unwritten = LOST
    store.close()
    assert (writer_of(tmp_path), cut_short(tmp_path)) == ("cut short", LOST)
    for _ in range(2):
        idle = SqliteStore.open(tmp_path)
        assert idle.unwritten_before == LOST
        idle.close()
    wrote = SqliteStore.open(tmp_path)
    wrote.append("s", [Entry("A", 1, 0, 0, b"{}")], 0)
    wrote.close()
    assert (writer_of(tmp_path), cut_short(tmp_path)) == ("closed", None)
    assert SqliteStore.open(tmp_path, create=False).unwritten_before is None


def test_word_is_left_on_a_disk_that_has_no_room_for_a_byte(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", 1 << 20) as disk:
        owner = Ownership.take(disk)
        fill(disk)
        owner.word = LOST
        owner.release()
        for _ in range(2):
            again = Ownership.take(disk)
            assert again.word == LOST
            assert (disk / LOCK_NAME).read_bytes() != LOST.line()
            again.release()
        assert cut_short(disk) == LOST


@pytest.mark.parametrize("text", [b"unwritten 1 2 3\n", b"unwritten x\n", b"\0" * 200])
def test_a_lock_file_that_somebody_wrote_in_is_no_word(tmp_path: Path, text: bytes) -> None:
    (tmp_path / LOCK_NAME).write_bytes(text)
    assert Ownership.take(tmp_path).word is None
