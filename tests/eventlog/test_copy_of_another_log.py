"""A directory that holds a copy of one log takes no other: both are named, nothing is written."""

from contextlib import closing
from pathlib import Path

import pytest

from eventlog import Entry, LogError
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from eventlog.sqlite_copy import copy_log
from eventlog.sqlite_segment import remove_file
from eventlog.targets import AnotherLog, CopyApart


def write(log: Path, word: str, rows: int, *, after: int = 0) -> Path:
    """Rows of ``word``, two in a segment."""
    limits = SegmentLimits(size_bytes=1)
    with closing(SqliteStore.open(log, sync="normal", limits=limits)) as store:
        for n in range(after, after + rows, 2):
            body = f'{{"word":"{word}","n":{n}}}'.encode()
            store.append("a", [Entry("k", 1, 0, 0, body)] * min(2, after + rows - n), n)
    return log


def chain_of(log: Path, seq: int) -> str:
    with closing(SqliteReader.open(log)) as reader:
        return reader.read(seq - 1, 1)[0].chain.hex()


def refused(log: Path, copy: Path) -> LogError:
    before = {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()}
    with pytest.raises((AnotherLog, CopyApart)) as caught:
        copy_log(log, copy)
    assert before == {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()}
    return caught.value


@pytest.mark.parametrize("rows", [3, 6, 9])
def test_a_copy_of_another_log_is_not_written_on(tmp_path: Path, rows: int) -> None:
    """A shorter one, one of the same length, a longer one; the names of files are the same."""
    first, other = write(tmp_path / "a", "a", 6), write(tmp_path / "b", "b", rows)
    copy_log(first, tmp_path / "copy")
    said = str(refused(other, tmp_path / "copy"))
    at = min(6, rows)
    assert said.startswith(f"{tmp_path / 'copy'} holds a copy of another log")
    assert f"its row {at} has chain {chain_of(first, at)}" in said
    assert f"{other} goes on otherwise, with {at}:{chain_of(other, at)}" in said
    assert said.endswith("give another target, or move what is there away")


def test_a_copy_that_was_written_on_is_not_written_over(tmp_path: Path) -> None:
    log = write(tmp_path / "log", "a", 6)
    copy_log(log, tmp_path / "copy")
    write(tmp_path / "copy", "b", 2, after=6)
    write(log, "a", 4, after=6)
    assert isinstance(refused(log, tmp_path / "copy"), AnotherLog)


def test_a_copy_that_is_ahead_of_its_log_is_not_cut_short(tmp_path: Path) -> None:
    log = write(tmp_path / "log", "a", 5)
    copy_log(log, tmp_path / "older")
    write(log, "a", 2, after=5)
    copy_log(log, tmp_path / "copy")
    said = str(refused(tmp_path / "older", tmp_path / "copy"))
    assert "goes on to row 7, and" in said
    assert "ends at 5: was that put back from an older copy?" in said


def test_no_copy_gets_a_hole_where_rows_were_retired(tmp_path: Path) -> None:
    log = write(tmp_path / "log", "a", 4)
    copy_log(log, tmp_path / "copy")
    write(log, "a", 6, after=4)
    for file in list_segments(log)[:3]:
        remove_file(file.path)
    said = str(refused(log, tmp_path / "copy"))
    assert f"ends at row 4, and {log} begins at 7: rows 5 to 6 were retired" in said
    assert said.endswith("give another target, and keep this one as it is")


@pytest.mark.parametrize("retired", [1, 2])
def test_a_copy_of_the_same_log_goes_on_where_older_rows_were_retired(
    tmp_path: Path, retired: int
) -> None:
    """Also where the log begins right behind the last row of the copy."""
    log = write(tmp_path / "log", "a", 4)
    copy_log(log, tmp_path / "copy")
    write(log, "a", 4, after=4)
    for file in list_segments(log)[:retired]:
        remove_file(file.path)
    assert copy_log(log, tmp_path / "copy").begins_at == 1
    with closing(SqliteReader.open(tmp_path / "copy")) as copy:
        assert [row.seq for row in copy.read()] == list(range(1, 9))


def test_another_log_that_begins_right_behind_a_copy_is_told_by_its_chain(tmp_path: Path) -> None:
    copy_log(write(tmp_path / "a", "a", 4), tmp_path / "copy")
    other = write(tmp_path / "b", "b", 8)
    for file in list_segments(other)[:2]:
        remove_file(file.path)
    assert isinstance(refused(other, tmp_path / "copy"), AnotherLog)
