"""follow: everything once and in order, catching up and live."""

from contextlib import aclosing
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from eventlog import LogDamaged, MemoryStore, Record, StoreClosed
from eventlog.conformance import some_entries
from eventlog.follow import follow
from eventlog.journal import Journal
from eventlog.sqlite import SqliteReader, SqliteStore


async def test_a_reader_follows_a_journal_that_writes_meanwhile(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log", sync="normal")
    reader = SqliteReader.open(tmp_path / "log")
    store.append("a", some_entries(20), 0)
    journal = Journal(store, "a")
    seen: list[Record] = []

    async def write() -> None:
        for n in range(20, 220, 4):
            journal.offer(some_entries(4, n))
            await trio.lowlevel.checkpoint()
        await journal.durable(220)
        journal.close()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            await nursery.start(journal.run)
            nursery.start_soon(write)
            async with aclosing(follow(reader, 5, poll_ms=1, page=7)) as records:
                async for record in records:
                    seen.append(record)
                    if record.seq == 220:
                        break
    assert [record.seq for record in seen] == list(range(6, 221))
    reader.close()
    store.close()


def test_an_idle_log_is_looked_at_at_the_poll_rate() -> None:
    store = MemoryStore()
    times: list[float] = []

    async def append_later() -> None:
        for n in range(3):
            await trio.sleep(1)
            store.append("a", some_entries(1, n), n)

    async def main() -> None:
        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append_later)
            async with aclosing(follow(store, poll_ms=350, threaded=False)) as records:
                async for record in records:
                    times.append(trio.current_time() - start)
                    if record.seq == 3:
                        break

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert times == pytest.approx([1.05, 2.1, 3.15])


async def test_a_hole_is_raised_not_passed_over() -> None:
    store = MemoryStore()
    store.append("a", some_entries(5), 0)

    class Holed(MemoryStore):
        def read(self, after: int = 0, limit: int = 1000) -> list[Record]:
            return [r for r in store.read(after, limit) if r.seq != 3]

    async with aclosing(follow(Holed(), threaded=False)) as records:
        assert [(await anext(records)).seq for _ in range(2)] == [1, 2]
        with pytest.raises(LogDamaged, match="3 to 3 are missing") as damage:
            await anext(records)
    assert damage.value.seq == 3


async def test_a_log_whose_beginning_was_retired_is_followed_from_there() -> None:
    store = MemoryStore()
    store.append("a", some_entries(5), 0)

    class Retired(MemoryStore):
        def read(self, after: int = 0, limit: int = 1000) -> list[Record]:
            return [attrs.evolve(r, seq=r.seq + 100) for r in store.read(max(after - 100, 0))]

    async with aclosing(follow(Retired(), page=10, threaded=False)) as records:
        assert (await anext(records)).seq == 101
        assert (await anext(records)).seq == 102


async def test_a_closed_store_ends_the_following_with_its_error() -> None:
    store = MemoryStore()
    store.append("a", some_entries(1), 0)
    async with aclosing(follow(store, poll_ms=1)) as records:
        await anext(records)
        store.close()
        with pytest.raises(StoreClosed):
            await anext(records)
