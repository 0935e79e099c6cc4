"""``--incident`` counts most rows without making events of them, and tells the same."""

import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

import trioroute.replay.ahead as ahead
from eventlog.bare import Even
from eventlog.errors import StoreFailed
from eventlog.reading import SqliteReader
from eventlog.record import Record
from eventlog.sqlite import SegmentLimits, SqliteStore
from tests.replay.logs import played, source_of
from tests.replay.rig import STREAM, busy_day
from tests.replay.rig import source_of as source_of_rig
from trioroute.replay import processes
from trioroute.replay.compare import compare
from trioroute.replay.incident import Incident, tell_incident
from trioroute.replay.plain import Run
from trioroute.replay.read import Source
from trioroute.replay.replica import tell_replica

FAULTS = ("replica=1,down=60..120", "replica=1,freeze=60..120", "replica=2,flap=30/30..300", "")


def whole(source: Source, readers: int | None = None) -> Incident:
    return tell_incident(source, 1, source.last().at_ms, readers=readers)


def none_plain(pages: Iterable[Even]) -> list[Run | Record]:
    return [
        Record(page.seq + at, page.stream, page.version + at, kind, schema, at_ms, 0, body, b"")
        for page in pages
        for at, (kind, schema, at_ms, body) in enumerate(page.rows)
    ]


@pytest.mark.parametrize("faults", FAULTS)
def test_rows_that_are_only_counted_tell_what_their_events_tell(
    faults: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(played(600, faults=faults)[0])
    counted = whole(source)
    rows = [row for part in ahead.parts(source, 0, source.last().seq) for row in part.rows]
    plain = sum(row.last - row.first + 1 for row in rows if isinstance(row, Run))
    assert plain > source.last().seq / 2
    monkeypatch.setattr(ahead, "plain_runs", none_plain)
    assert whole(source) == counted


def test_a_busy_day_is_told_alike_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = busy_day(900)
    counted = whole(source_of_rig(rig))
    monkeypatch.setattr(ahead, "plain_runs", none_plain)
    assert whole(source_of_rig(rig)) == counted


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    entries = played(600, faults=FAULTS[0])[0]
    limits = SegmentLimits(200_000)
    with closing(SqliteStore.open(directory, sync="normal", limits=limits)) as store:
        for n in range(0, len(entries), 100):
            store.append(STREAM, entries[n : n + 100], n)
    assert len(list(directory.glob("log-*.sqlite"))) > 1
    return directory


def test_several_processes_tell_what_one_tells(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "PART_ROWS", 150)
    with SqliteReader.open(stored) as reader:
        source = Source(reader)
        alone = whole(source, readers=0)
        assert alone == whole(source_of(played(600, faults=FAULTS[0])[0]))
        assert whole(source, readers=2) == alone
        several = list(ahead.parts(source, 0, source.last().seq, 2))
        assert several == list(ahead.parts(source, 0, source.last().seq, 0))
        assert len(several) > 8


def test_a_reader_that_dies_leaves_the_rest_to_this_process(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "PART_ROWS", 150)
    monkeypatch.setattr(processes, "_open", "".join)  # called with what it cannot join
    with SqliteReader.open(stored) as reader:
        source = Source(reader)
        assert whole(source, readers=2) == whole(source, readers=0)


def test_damage_is_told_once_however_the_rows_are_read(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Path(shutil.copytree(stored, tmp_path / "log"))
    with closing(sqlite3.connect(log / "log-1.sqlite")) as base:
        base.execute("DELETE FROM events WHERE seq BETWEEN 140 AND 460")
        base.execute("UPDATE events SET body = '{\\x' WHERE seq = 500")
        base.commit()
    with SqliteReader.open(log) as reader:
        source = Source(reader)
        alone = whole(source, readers=0)
        assert len([note for note in alone.notes if note.startswith("not all rows")]) == 1
        assert len([note for note in alone.notes if "seq 500" in note]) == 1
        monkeypatch.setattr(ahead, "PART_ROWS", 150)
        assert whole(source, readers=0) == alone
        assert whole(source, readers=2) == alone


@pytest.mark.parametrize("faults", FAULTS)
def test_a_replica_and_a_comparison_are_told_alike_row_by_row(
    faults: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, other = source_of(played(600, faults=faults)[0]), source_of(played(600)[0])
    told, compared = tell_replica(source, "gpu1"), compare(source, other, ("a", "b"))
    assert told.endings["ok"] > 20
    monkeypatch.setattr(ahead, "plain_runs", none_plain)
    assert tell_replica(source, "gpu1") == told
    assert compare(source, other, ("a", "b")) == compared


def test_a_busy_day_of_a_replica_is_told_alike_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of_rig(busy_day(900))
    told = tell_replica(source, "c")
    monkeypatch.setattr(ahead, "plain_runs", none_plain)
    assert tell_replica(source, "c") == told


@pytest.mark.parametrize("readers", [0, 2])
def test_what_comes_before_the_first_part_is_done_once_and_its_error_is_told(
    stored: Path, readers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "PART_ROWS", 150)
    done: list[str] = []

    def fails() -> None:
        raise StoreFailed("log", "gone")

    with SqliteReader.open(stored) as reader:
        source = Source(reader)
        end = source.last().seq
        told = ahead.parts(source, 0, end, readers, lambda: done.append("begun"))
        assert next(told).until == 150
        assert done == ["begun"]
        assert [part.until for part in told][-1] == end
        assert done == ["begun"]
        with pytest.raises(StoreFailed):
            list(ahead.parts(source, 0, end, readers, fails))
