"""A write-ahead log that breaks off before its end is told of; one that a crash left is not."""

import random
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.check import check_log
from eventlog.conformance import some_entries
from eventlog.schema import PAGE_BYTES
from eventlog.sqlite import SqliteStore
from eventlog.wal import broken_tail

FILE = "log-1.sqlite"
COMMITS, ROWS_EACH = 30, 10


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A log as a killed process leaves it: 30 commits in its write-ahead log."""
    log = tmp_path / "log"
    with closing(SqliteStore.open(log, sync="normal")) as store:
        for n in range(0, COMMITS * ROWS_EACH, ROWS_EACH):
            store.append("a", some_entries(ROWS_EACH, n), n)
        (tmp_path / "left").mkdir()
        for name in (FILE, f"{FILE}-wal"):
            shutil.copy(log / name, tmp_path / "left")
    return tmp_path / "left"


def test_what_a_crash_left_is_whole(left: Path) -> None:
    assert broken_tail(left / FILE) is None
    assert check_log(left).rows == COMMITS * ROWS_EACH
    wal = left / f"{FILE}-wal"
    whole = wal.read_bytes()
    wal.write_bytes(whole[: len(whole) - 100])  # the last commit was not finished
    assert broken_tail(left / FILE) is None
    assert check_log(left).bad == []
    assert check_log(left).rows == (COMMITS - 1) * ROWS_EACH


def test_a_flipped_bit_is_told_exactly_when_it_costs_commits(left: Path, tmp_path: Path) -> None:
    whole = (left / f"{FILE}-wal").read_bytes()
    chance = random.Random(4)
    told = 0
    last_frame = len(whole) - PAGE_BYTES - 24
    for number in range(40):
        log = Path(shutil.copytree(left, tmp_path / str(number)))
        at = number if number < 32 else chance.randrange(last_frame)
        damaged = bytearray(whole)
        damaged[at] ^= 1 << chance.randrange(8)
        (log / f"{FILE}-wal").write_bytes(damaged)
        found = check_log(log)
        lost = found.rows < COMMITS * ROWS_EACH
        assert (broken_tail(log / FILE) is not None) == lost, at
        assert bool(found.bad) == lost, at
        told += lost
        if lost:
            (bad,) = found.bad
            assert bad.first == found.rows + 1, at
            assert bad.part == str(log / f"{FILE}-wal")
            assert bad.offset is not None
            assert bad.offset <= at
            assert "cannot be read" in bad.reason
        with closing(SqliteStore.open(log, sync="normal")) as store:
            assert (store.lost_tail is not None) == lost, at
            assert store.head() == found.head
            store.append("a", some_entries(1, found.rows), found.rows)
        assert check_log(log).bad == [], "what was lost is told once"
    assert told > 30
