"""Copies of a log whose segments are retired, or closed, while they are copied: never a hole."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eventlog import Head, sqlite_copy
from eventlog.chain import verify_chain
from eventlog.conformance import some_entries
from eventlog.errors import Overtaken
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from eventlog.sqlite_copy import copy_log
from eventlog.sqlite_one_file import copy_into_one_file
from eventlog.sqlite_opening import uri_of
from eventlog.sqlite_segment import remove_file

SEGMENTS = 5
ROWS = 3
"""Of each segment."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    limits = SegmentLimits(size_bytes=1)
    with closing(SqliteStore.open(tmp_path / "log", sync="normal", limits=limits)) as store:
        for n in range(SEGMENTS):
            store.append("a", some_entries(ROWS, ROWS * n), ROWS * n)
    assert len(list_segments(tmp_path / "log")) == SEGMENTS
    return tmp_path / "log"


def once_before(monkeypatch: pytest.MonkeyPatch, name: str, happens: Callable[[], object]) -> None:
    """Something happens before ``name`` of the copying module is called the first time."""
    real = getattr(sqlite_copy, name)
    left = [happens]

    def called(*args: Any, **kwargs: Any) -> Any:
        if left:
            left.pop()()
        return real(*args, **kwargs)

    monkeypatch.setattr(sqlite_copy, name, called)


def retire(log: Path, count: int) -> list[str]:
    going = list_segments(log)[:count]
    for file in going:
        remove_file(file.path)
    return [file.path.name for file in going]


def all_rows(copy: Path) -> list[int]:
    with closing(SqliteReader.open(copy)) as reader:
        rows = reader.read(0, 1000)
        begins = rows[0].seq == 1
        assert verify_chain(rows, Head() if begins else None) == reader.head()
    return [row.seq for row in rows]


def test_a_segment_that_is_retired_while_it_is_copied_is_in_the_copy(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_before(monkeypatch, "_copy_file", lambda: retire(log, 3))
    copied = copy_log(log, tmp_path / "copy")
    assert all_rows(tmp_path / "copy") == list(range(1, SEGMENTS * ROWS + 1))
    assert [path.name for path in copied.retired] == [
        "log-1.sqlite",
        "log-4.sqlite",
        "log-7.sqlite",
    ]
    assert copied.begins_at == 1


def test_one_that_is_retired_before_it_is_opened_is_not_missed(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_before(monkeypatch, "is_sealed", lambda: retire(log, 2))
    copied = copy_log(log, tmp_path / "copy")
    assert (copied.begins_at, copied.retired) == (7, ())
    assert all_rows(tmp_path / "copy") == list(range(7, SEGMENTS * ROWS + 1))


def test_one_that_was_copied_before_is_not_needed_any_more(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_log(log, tmp_path / "copy")
    once_before(monkeypatch, "_is_copied", lambda: retire(log, 4))
    copy_log(log, tmp_path / "copy")
    assert all_rows(tmp_path / "copy") == list(range(1, SEGMENTS * ROWS + 1))


def test_retention_that_overtakes_what_is_held_open_is_told_and_leaves_what_is_whole(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_copy, "HELD_MAX", 1)
    once_before(monkeypatch, "_copy_file", lambda: retire(log, 3))
    with pytest.raises(Overtaken, match=r"begins at row 10 by now, and .*copy ends at row 3; copy"):
        copy_log(log, tmp_path / "copy")
    assert all_rows(tmp_path / "copy") == [1, 2, 3]
    assert not list((tmp_path / "copy").glob("*.new*"))


def test_a_segment_that_closes_while_it_is_copied_ends_the_copy(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came after the moment of its copy is not in it, so neither is what follows."""
    with closing(SqliteStore.open(log, limits=SegmentLimits(size_bytes=1 << 20))) as store:
        at = SEGMENTS * ROWS
        store.append("a", some_entries(1, at), at)

        def goes_on() -> None:
            store.append("a", some_entries(5, at + 1), at + 1)
            store.limits = SegmentLimits(size_bytes=1)
            store.append("a", some_entries(1, at + 6), at + 6)

        real = sqlite_copy._back_up

        def backed_up(*args: Any) -> None:
            real(*args)
            goes_on()

        monkeypatch.setattr(sqlite_copy, "_back_up", backed_up)
        copy_log(log, tmp_path / "copy")
        assert all_rows(tmp_path / "copy") == list(range(1, at + 2))
        monkeypatch.setattr(sqlite_copy, "_back_up", real)
        copy_log(log, tmp_path / "copy")
        assert all_rows(tmp_path / "copy") == list(range(1, at + 8))


def test_one_file_has_what_is_left_and_no_hole(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = uri_of
    asked: list[Path] = []

    def second_is_gone(path: Path, how: str) -> str:
        asked.append(path)
        if len(asked) == 2:
            retire(log, 2)
        return real(path, how)

    monkeypatch.setattr("eventlog.sqlite_one_file.uri_of", second_is_gone)
    target = tmp_path / "one.sqlite"
    assert copy_into_one_file(log, target, {}) == (SEGMENTS - 2) * ROWS
    with closing(sqlite3.connect(target)) as one:
        assert one.execute("SELECT min(seq), max(seq) FROM events").fetchone() == (7, 15)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "one.sqlite"]


def test_one_file_gives_up_where_each_try_is_overtaken(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = uri_of

    def always_gone(path: Path, how: str) -> str:
        if len(list_segments(log)) > 1:
            retire(log, 1)
        return real(path, how)

    monkeypatch.setattr("eventlog.sqlite_one_file.TRIES", 2)
    monkeypatch.setattr("eventlog.sqlite_one_file.uri_of", always_gone)
    with pytest.raises(Overtaken, match="nothing was copied"):
        copy_into_one_file(log, tmp_path / "one.sqlite", {})
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
