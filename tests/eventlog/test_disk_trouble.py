"""A real file system that is full or read-only: the writer waits, and goes on by itself."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from eventlog import Entry, Head, LogError
from eventlog.chain import verify_chain
from eventlog.conformance import read_all
from eventlog.errors import NoRoom
from eventlog.journal import Journal
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from tests.small_disk import fill, mount, mounted

SIZE_BYTES = 3 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", SIZE_BYTES) as disk:
        yield disk


def entries(count: int) -> list[Entry]:
    return [Entry("k", 1, 0, 0, b'"%s"' % (b"x" * 500))] * count


@pytest.mark.parametrize("segment_bytes", [0, 100_000])
async def test_a_full_disk_is_waited_out(small_disk: Path, segment_bytes: int) -> None:
    limits = SegmentLimits(segment_bytes)
    store = SqliteStore.open(small_disk / "log", limits=limits)
    journal = Journal(store, "a")
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        await journal.durable(journal.offer(entries(200)) + 199)
        for _ in range(3):
            ballast = fill(small_disk)
            while journal.failing is None:
                journal.offer(entries(50))
                await trio.sleep(0.01)
            assert "full" in str(journal.failing) or "space" in str(journal.failing)
            durable = journal.durable_position
            await trio.sleep(0.05)
            assert journal.durable_position == durable
            ballast.unlink()
            with trio.fail_after(20):
                await journal.durable(journal.position)
            assert journal.failing is None
        journal.close()
    assert len(read_all(store)) == journal.position
    assert verify_chain(read_all(store), Head()) == store.head()
    assert (len(list_segments(small_disk / "log")) > 1) == bool(segment_bytes)
    store.close()


def test_a_start_on_a_full_disk_says_so_and_works_once_there_is_room(small_disk: Path) -> None:
    store = SqliteStore.open(small_disk / "log")
    store.append("a", entries(300), 0)
    store.close()
    ballast = fill(small_disk)
    with pytest.raises(NoRoom, match=r"(full|space).*: free room on its disk"):
        with closing(SqliteStore.open(small_disk / "log")) as store:
            store.append("a", entries(300), 300)
    ballast.unlink()
    store = SqliteStore.open(small_disk / "log")
    assert store.append("a", entries(1), 300).first == 301
    assert verify_chain(read_all(store), Head()) == store.head()
    store.close()


def test_a_log_on_a_file_system_that_became_read_only_is_read_and_refused_for_writing(
    small_disk: Path,
) -> None:
    store = SqliteStore.open(small_disk / "log")
    store.append("a", entries(10), 0)
    store.close()
    mount("-o", "remount,ro", str(small_disk))
    with pytest.raises((LogError, OSError), match=r"ead-only|readonly|unable to open"):
        SqliteStore.open(small_disk / "log")
    with SqliteReader.open(small_disk / "log") as reader:
        assert len(reader.read()) == 10
    mount("-o", "remount,rw", str(small_disk))
    store = SqliteStore.open(small_disk / "log")
    assert store.append("a", entries(1), 10).first == 11
    store.close()
