"""Rows that are missing are told of the answers that were searched for where they lay."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.segments import SegmentReader, list_segments
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from tests.replay.rig import STREAM, busy_day
from tests.replay.test_command import run
from trioroute.replay.clock import local_iso


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Rows are missing in the first of its segments."""
    log, entries = tmp_path / "log", busy_day(300).log.entries
    with closing(
        SqliteStore.open(log, sync="normal", limits=SegmentLimits(size_bytes=60_000))
    ) as store:
        for n in range(0, len(entries), 50):
            store.append(STREAM, entries[n : n + 50], n)
    assert len(list_segments(log)) >= 4
    with closing(sqlite3.connect(log / "log-1.sqlite")) as base:
        base.execute("DELETE FROM events WHERE seq IN (60, 61)")
        base.commit()
    return log


def at(log: Path, seq: int) -> str:
    with SqliteReader.open(log) as reader:
        return local_iso(reader.read(seq - 1, 1)[0].at_ms)


def test_an_answer_counts_the_rows_of_the_segments_only_that_it_was_searched_in(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = list[int]()
    count = SegmentReader.lacking

    def noted(segment: SegmentReader, first: int) -> int:
        counted.append(first)
        return count(segment, first)

    monkeypatch.setattr(SegmentReader, "lacking", noted)
    firsts = [file.first for file in list_segments(log)]
    early = run(log, "--requests", f"{at(log, 30)}/{at(log, 80)}")
    assert "log-1.sqlite lacks 2 rows" in early.stderr, early.output
    counted.clear()
    late = run(log, "--requests", f"{at(log, firsts[-1] + 10)}/{at(log, firsts[-1] + 60)}")
    assert (late.exit_code, "lacks" in late.stderr) == (0, False), late.output
    assert counted == firsts[-1:], "however old the log is"
    counted.clear()
    assert "log-1.sqlite lacks 2 rows" in run(log, "--session", "s3").stderr
    assert counted == firsts, "a session may be anywhere"


def test_the_segments_of_a_span_are_those_that_may_hold_its_rows(log: Path) -> None:
    second, third, *_ = [file.first for file in list_segments(log)][1:]
    with SqliteReader.open(log) as reader:
        told = [(log / "log-1.sqlite", 2)]
        assert reader.lacking() == reader.lacking(0, 1) == told
        assert reader.lacking(second - 2, third) == told
        assert reader.lacking(second - 1) == []
        assert reader.lacking(second - 1, third) == []
    with SqliteReader.open(log / "log-1.sqlite") as reader:
        assert reader.lacking(100, 200) == told
