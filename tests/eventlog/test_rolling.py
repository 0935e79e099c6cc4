"""Segments close at their limits and never change again; the next one continues the chain."""

import hashlib
import sqlite3
import subprocess
import sys
from contextlib import aclosing, closing
from pathlib import Path

import pytest
import trio

from eventlog import Entry, Head, LogDamaged, StoreFailed, sqlite_segment
from eventlog.chain import verify_chain
from eventlog.conformance import read_all, some_entries
from eventlog.follow import follow
from eventlog.journal import Journal
from eventlog.record import same_entries
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from tests.eventlog.roller import STEPS

ROOT = Path(__file__).parents[2]
HOUR_MS = 3_600_000


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name != "owner.lock")


def at(at_ms: int) -> list[Entry]:
    return [Entry("k", 1, at_ms, 0, b"{}")]


def open_store(directory: Path, size_bytes: int = 0, age_ms: int = 0) -> SqliteStore:
    return SqliteStore.open(directory, sync="normal", limits=SegmentLimits(size_bytes, age_ms))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_segment_closes_at_its_size_and_is_one_plain_file_from_then_on(tmp_path: Path) -> None:
    store = open_store(tmp_path, size_bytes=200_000)
    closed: dict[Path, str] = {}
    for n in range(0, 6_000, 20):
        store.append("a", [Entry("k", 1, 1, 0, b'"%s"' % (b"x" * 100))] * 20, n)
        for file in list_segments(tmp_path)[:-1]:
            assert closed.setdefault(file.path, digest(file.path)) == digest(file.path)
            assert not file.path.with_name(file.path.name + "-wal").exists()
    assert len(closed) >= 3
    for path in closed:
        assert 200_000 <= path.stat().st_size < 230_000
    files = list_segments(tmp_path)
    assert [record.seq for record in read_all(store)] == list(range(1, 6_001))
    assert verify_chain(read_all(store), Head()) == store.head()
    for file in files:
        connection = sqlite3.connect(file.path)
        assert connection.execute("SELECT min(seq) FROM events").fetchone() == (file.first,)
        connection.close()
    store.close()


def test_a_segment_closes_at_its_age_on_the_clock_of_the_entries(tmp_path: Path) -> None:
    store = open_store(tmp_path, age_ms=24 * HOUR_MS)
    for n, hour in enumerate((0, 23, 24, 30, 47, 48)):
        store.append("a", at(hour * HOUR_MS), n)
    assert [file.first for file in list_segments(tmp_path)] == [1, 3, 6]
    store.close()


def test_a_clock_stepped_far_back_does_not_keep_a_segment_open(tmp_path: Path) -> None:
    store = open_store(tmp_path, age_ms=24 * HOUR_MS)
    for n, hour in enumerate((100, 99, 70, 71)):
        store.append("a", at(hour * HOUR_MS), n)
    assert [file.first for file in list_segments(tmp_path)] == [1, 3]
    store.close()


def test_the_age_of_a_segment_outlives_its_writer(tmp_path: Path) -> None:
    for n, hour in enumerate((0, 23, 25)):
        store = open_store(tmp_path, age_ms=24 * HOUR_MS)
        store.append("a", at(hour * HOUR_MS), n)
        store.close()
    assert [file.first for file in list_segments(tmp_path)] == [1, 3]


def test_the_heads_to_publish_are_the_last_commit_and_the_last_closed_segment(
    tmp_path: Path,
) -> None:
    with closing(open_store(tmp_path, age_ms=100)) as store:
        assert (store.last_head, store.closed_head) == (Head(), None)
        store.append("a", at(0), 0)
        closed = store.last_head
        assert closed == store.head()
        store.append("a", at(200), 1)
        assert (store.last_head, store.closed_head) == (store.head(), closed)
    with closing(open_store(tmp_path)) as store:
        assert (store.last_head, store.closed_head) == (store.head(), closed)
        assert Head.parse(str(closed)) == closed


def test_views_are_in_every_segment(tmp_path: Path) -> None:
    views = {"numbers": "SELECT seq FROM events"}
    store = SqliteStore.open(tmp_path, views=views, limits=SegmentLimits(size_bytes=1))
    for n in range(3):
        store.append("a", some_entries(1, n), n)
    store.close()
    for n in (1, 2, 3):
        connection = sqlite3.connect(tmp_path / f"log-{n}.sqlite")
        assert connection.execute("SELECT * FROM numbers").fetchall() == [(n,)]
        connection.close()


async def test_readers_and_followers_cross_into_new_segments_live(tmp_path: Path) -> None:
    store = open_store(tmp_path, size_bytes=50_000)
    journal = Journal(store, "a", batch_entries=50)
    reader = SqliteReader.open(tmp_path)
    seen: list[int] = []

    async def write() -> None:
        for n in range(0, 4_000, 10):
            journal.offer(some_entries(10, n))
            await trio.lowlevel.checkpoint()
            if journal.depth > 500:
                await journal.durable(journal.position)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(journal.run)
            nursery.start_soon(write)
            async with aclosing(follow(reader, poll_ms=1, page=70)) as records:
                async for record in records:
                    seen.append(record.seq)
                    if record.seq == 4_000:
                        break
            journal.close()
    assert seen == list(range(1, 4_001))
    assert len(list_segments(tmp_path)) > 4
    assert reader.read_stream("a", 3_990) == reader.read(3_990)
    reader.close()
    store.close()


def test_a_reader_in_the_way_leaves_the_sealing_for_later(tmp_path: Path) -> None:
    store = open_store(tmp_path, size_bytes=1)
    store.append("a", some_entries(3), 0)
    other = sqlite3.connect(tmp_path / "log-1.sqlite")
    other.execute("BEGIN")
    assert other.execute("SELECT count(*) FROM events").fetchone() == (3,)
    store.append("a", some_entries(1, 3), 3)
    assert "log-1.sqlite-wal" in names(tmp_path)
    other.close()
    store.close()
    again = open_store(tmp_path)
    assert "log-1.sqlite-wal" not in names(tmp_path)
    assert same_entries(read_all(again), some_entries(4))
    again.close()


def test_a_new_segment_that_cannot_be_made_leaves_the_old_one_going(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path, size_bytes=1)
    store.append("a", some_entries(1), 0)

    def no_room(directory: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_segment, "sync_directory", no_room)
        store.append("a", some_entries(1, 1), 1)
        store.append("a", some_entries(1, 2), 2)
    assert names(tmp_path) == ["log-1.sqlite", "log-1.sqlite-shm", "log-1.sqlite-wal"]
    monkeypatch.setattr(store, "_roll_from_s", 0.0)
    store.append("a", some_entries(1, 3), 3)
    assert [file.first for file in list_segments(tmp_path)] == [1, 4]
    assert verify_chain(read_all(store), Head()) == store.head()
    store.close()


def test_no_segment_is_begun_while_the_old_one_is_missing(tmp_path: Path) -> None:
    store = open_store(tmp_path, size_bytes=1)
    store.append("a", some_entries(1), 0)
    kept = (tmp_path / "log-1.sqlite").rename(tmp_path / "kept")
    with pytest.raises(StoreFailed, match="gone"):
        store.append("a", some_entries(1, 1), 1)
    assert list_segments(tmp_path) == []
    kept.rename(tmp_path / "log-1.sqlite")
    assert store.append("a", some_entries(1, 1), 1).first == 2
    store.close()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_kill_9_at_any_step_of_a_roll_loses_nothing(tmp_path: Path, step: str, moment: str) -> None:
    command = [sys.executable, "-m", "tests.eventlog.roller", str(tmp_path), step, moment]
    died = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert died.returncode == -9, died.stderr.decode()
    store = open_store(tmp_path, size_bytes=1)
    assert same_entries(read_all(store), some_entries(3)), "the fourth was never acknowledged"
    assert store.append("a", some_entries(1, 3), 3).first == 4
    assert store.append("a", some_entries(1, 4), 4).first == 5
    assert verify_chain(read_all(store), Head()) == store.head()
    files = list_segments(tmp_path)
    assert [file.first for file in files] == [1, 4, 5]
    for file in files[:-1]:
        assert not file.path.with_name(file.path.name + "-wal").exists()
    store.close()


def test_a_blank_segment_for_rows_that_were_lost_is_removed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append("a", some_entries(3), 0)
    store.close()
    (tmp_path / "log-9.sqlite").touch()
    store = open_store(tmp_path)
    assert store.append("a", some_entries(1, 3), 3).first == 4
    assert names(tmp_path)[:1] == ["log-1.sqlite"]
    assert [file.first for file in list_segments(tmp_path)] == [1]
    store.close()


def test_a_segment_that_is_missing_in_the_middle_is_a_hole(tmp_path: Path) -> None:
    store = open_store(tmp_path, size_bytes=1)
    for n in range(4):
        store.append("a", some_entries(1, n), n)
    store.close()
    (tmp_path / "log-2.sqlite").unlink()
    reader = SqliteReader.open(tmp_path)
    assert [record.seq for record in reader.read()] == [1]
    with pytest.raises(LogDamaged, match="gap: 2 to 2 are missing"):
        reader.read(1)
    reader.close()


def test_a_log_whose_oldest_segments_are_unlinked_is_read_from_the_oldest_kept(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path, size_bytes=1)
    for n in range(5):
        store.append("a", some_entries(1, n), n)
    assert len(store.read()) == 5
    for n in (1, 2):
        (tmp_path / f"log-{n}.sqlite").unlink()
    assert [record.seq for record in store.read()] == [3, 4, 5]
    assert [record.version for record in store.read_stream("a")] == [3, 4, 5]
    assert [path.name for path in store._reader._open] == [
        "log-3.sqlite",
        "log-4.sqlite",
        "log-5.sqlite",
    ], "an unlinked file is not kept open"
    store.close()
