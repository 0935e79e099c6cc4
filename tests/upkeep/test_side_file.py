"""A foreign reader that pins the write-ahead log is told of once, with the remedy."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from eventlog import Entry
from eventlog.sqlite import SqliteStore
from trioroute.upkeep.side_file import SideFile

WARN_BYTES = 18 << 20


def test_a_side_file_that_a_reader_pins_is_told_of_once_and_when_it_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trioroute")
    watched = SideFile(tmp_path, WARN_BYTES)
    watched.look()
    big = [Entry("k", 1, 0, 0, b'"' + b"x" * 100_000 + b'"')] * 20
    with closing(SqliteStore.open(tmp_path, sync="normal")) as store:
        version = 0

        def write() -> int:
            store.append("a", big, version)
            watched.look()
            return version + len(big)

        with closing(sqlite3.connect(tmp_path / "log-1.sqlite", isolation_level=None)) as foreign:
            version = write()
            foreign.execute("BEGIN")
            foreign.execute("SELECT count(*) FROM events").fetchall()
            for _ in range(12):
                version = write()
            (warned,) = caplog.messages
            assert "log-1.sqlite-wal has grown to " in warned
            assert "fuser" in warned
        for _ in range(3):
            version = write()
    assert caplog.messages[1:] == [f"{tmp_path / 'log-1.sqlite-wal'} is small again"]
