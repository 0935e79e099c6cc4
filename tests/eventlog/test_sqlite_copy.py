"""Copies of a log that is being written are whole and go on where they ended."""

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from eventlog import Head, LogMissing
from eventlog.chain import verify_chain
from eventlog.conformance import read_all, some_entries
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from eventlog.sqlite_copy import copy_log
from eventlog.sqlite_one_file import copy_into_one_file
from eventlog.sqlite_segment import is_sealed


def test_a_log_is_copied_while_it_is_written(tmp_path: Path) -> None:
    log, target = tmp_path / "log", tmp_path / "copy"
    store = SqliteStore.open(log, sync="normal", limits=SegmentLimits(size_bytes=30_000))
    store.append("a", some_entries(50), 0)
    stop = threading.Event()

    written = 50

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            store.append("a", some_entries(50, written), written)
            written += 50

    writer = threading.Thread(target=write)
    writer.start()
    heads: list[int] = []
    try:
        for _ in range(5):
            while written <= (heads or [50])[-1]:
                time.sleep(0.001)  # until something is new
            copied = copy_log(log, target)
            assert copied.new
            with SqliteReader.open(target) as reader:
                rows = reader.read(0, 1_000_000)
                assert verify_chain(rows, Head()) == reader.head()
                heads.append(reader.head().seq)
    finally:
        stop.set()
        writer.join()
    assert heads == sorted(heads)
    assert heads[-1] > 50
    store.close()
    last = copy_log(log, target)
    assert len(last.there) + len(last.new) == len(list(log.glob("log-*.sqlite")))
    with SqliteReader.open(target) as copy, SqliteReader.open(log) as original:
        assert copy.read(0, 1_000_000) == original.read(0, 1_000_000)
    assert {path.name for path in target.iterdir()} == {
        "owner.lock",
        "copied",
        *(file.path.name for file in list_segments(log)),
    }


def test_a_segment_that_was_copied_while_it_was_open_is_copied_again(tmp_path: Path) -> None:
    """Also if it has as many pages as it had then."""
    log, target = tmp_path / "log", tmp_path / "copy"
    with closing(SqliteStore.open(log, sync="normal")) as store:
        store.append("a", some_entries(3), 0)
        copy_log(log, target)
        store.append("a", some_entries(1, 3), 3)
        store.limits = SegmentLimits(size_bytes=1)
        store.append("a", some_entries(1, 4), 4)
        closed, following = target / "log-1.sqlite", target / "log-5.sqlite"
        assert closed.stat().st_size == (log / closed.name).stat().st_size
        assert copy_log(log, target).new == (closed, following)
        with SqliteReader.open(target) as copy:
            assert copy.read() == store.read()
        assert copy_log(log, target).there == (closed,)


def test_a_copy_can_be_written_on(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log", sync="normal")
    store.append("a", some_entries(3), 0)
    copy_log(tmp_path / "log", tmp_path / "copy")
    assert is_sealed(tmp_path / "copy" / "log-1.sqlite")
    store.close()
    copy = SqliteStore.open(tmp_path / "copy")
    assert copy.append("a", some_entries(1, 3), 3).first == 4
    assert len(read_all(copy)) == 4
    copy.close()


def test_all_of_a_log_in_one_file_with_its_views(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log", sync="normal", limits=SegmentLimits(size_bytes=1))
    for n in range(4):
        store.append("a", some_entries(3, 3 * n), 3 * n)
    target = tmp_path / "one.sqlite"
    assert copy_into_one_file(tmp_path / "log", target, {"n": "SELECT seq FROM events"}) == 12
    connection = sqlite3.connect(target)
    assert connection.execute("SELECT count(*), max(seq) FROM n").fetchone() == (12, 12)
    connection.close()
    with SqliteReader.open(target) as one:
        assert one.read() == store.read()
    with pytest.raises(FileExistsError, match="give a name that is free"):
        copy_into_one_file(tmp_path / "log", target, {})
    with pytest.raises(LogMissing):
        copy_log(tmp_path / "nothing", tmp_path / "copy")
    store.close()
