"""Journal: what its store's troubles, its own end and a lost loop do to it."""

import threading
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from eventlog import Entry, LogError, MemoryStore, StoreClosed, StoreFailed, VersionConflict
from eventlog.conformance import some_entries
from eventlog.faults import FaultyStore
from eventlog.journal import Journal
from eventlog.record import same_entries
from eventlog.sqlite import SqliteStore


async def test_a_failing_store_is_tried_again_until_it_recovers(threaded: bool) -> None:
    inner = MemoryStore()
    store = FaultyStore(inner)
    store.go_down()
    journal = Journal(store, "a", threaded=threaded, clock_ms=lambda: 1_000)
    states: list[tuple[str, int | None]] = []

    def look() -> None:
        states.append((str(journal.failing), journal.stalled_since_ms))

    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        look()
        journal.offer(some_entries(1))
        with trio.fail_after(40):
            while journal.failing is None:  # noqa: ASYNC110  # a property, not an event
                await trio.sleep(0.001)
            look()
            journal.offer(some_entries(1, 1))
            store.heal()
            await journal.durable(2)
        look()
        journal.close()
    failed = "faulty store: failed before the commit"
    assert states == [("None", None), (failed, 1_000), ("None", None)]
    assert same_entries(inner.read(), some_entries(2))


async def test_a_stall_is_dated_from_its_first_failure(threaded: bool) -> None:
    store = FaultyStore(MemoryStore())
    store.go_down()
    times = iter(range(5_000, 6_000))
    journal = Journal(store, "a", threaded=threaded, clock_ms=lambda: next(times))
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        journal.offer(some_entries(1))
        with trio.fail_after(40):
            while store.attempts < 4:  # noqa: ASYNC110  # a counter, not an event
                await trio.sleep(0.001)
        assert journal.stalled_since_ms == 5_000
        store.heal()
        journal.close()


async def test_a_write_that_reported_failure_after_its_commit_is_stored_once(
    threaded: bool,
) -> None:
    inner = MemoryStore()
    store = FaultyStore(inner)
    store.fail_after_commit(2)
    journal = Journal(store, "a", threaded=threaded)
    for n in range(3):
        journal.offer(some_entries(2, 2 * n))
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        with trio.fail_after(40):
            await journal.durable(6)
            await journal.durable(journal.offer(some_entries(1, 6)))
        journal.close()
    assert same_entries(inner.read(), some_entries(7))


async def test_a_conflict_ends_the_journal_for_everybody(threaded: bool) -> None:
    store = MemoryStore()
    journal = Journal(store, "a", threaded=threaded)
    journal.offer(some_entries(1))
    store.append("a", some_entries(1, 50), 0)
    outcomes: list[LogError] = []

    async def wait(version: int) -> None:
        with pytest.raises(VersionConflict) as conflict:
            await journal.durable(version)
        outcomes.append(conflict.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, 1)
        nursery.start_soon(wait, 1)
        await wait_all_tasks_blocked()
        with pytest.raises(VersionConflict, match="at version 1, expected 0"):
            await journal.run()
    assert len(outcomes) == 2
    assert outcomes[0] is not outcomes[1], "each task raises an error of its own"
    with pytest.raises(VersionConflict):
        journal.offer(some_entries(1))
    with pytest.raises(VersionConflict):
        await journal.durable(1)
    assert store.head().seq == 1


async def test_an_error_the_store_did_not_promise_ends_the_journal_and_is_shown(
    threaded: bool,
) -> None:
    journal = Journal(MemoryStore(), "a", threaded=threaded)
    journal.offer([Entry("k", 1, 1 << 64, 0, b"{}")])
    with pytest.raises(StoreFailed, match="broken: ValueError") as failure:
        await journal.run()
    assert isinstance(failure.value.__cause__, ValueError)


async def test_a_closed_store_ends_the_journal(threaded: bool) -> None:
    store = MemoryStore()
    journal = Journal(store, "a", threaded=threaded)
    journal.offer(some_entries(1))
    store.close()
    with pytest.raises(StoreClosed):
        await journal.run()


async def test_cancellation_flushes_everything_offered(threaded: bool, tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log", sync="normal")
    journal = Journal(store, "a", threaded=threaded, batch_entries=16)
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        for n in range(500):
            journal.offer(some_entries(1, n))
        nursery.cancel_scope.cancel()
    assert same_entries(store.read(), some_entries(500))
    with pytest.raises(StoreClosed, match="journal of 'a' is closed"):
        journal.offer(some_entries(1))
    store.close()


async def test_close_flushes_and_lets_run_return(threaded: bool) -> None:
    store = FaultyStore(MemoryStore())
    store.fail_next(2)
    journal = Journal(store, "a", threaded=threaded)
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        journal.offer(some_entries(3))
        journal.close()
        journal.close()
        with pytest.raises(StoreClosed):
            journal.offer(some_entries(1))
    assert journal.durable_position == 3
    with pytest.raises(RuntimeError, match="already run"):
        await journal.run()


async def test_an_idle_journal_closes_at_once(threaded: bool) -> None:
    journal = Journal(MemoryStore(), "a", threaded=threaded)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            await nursery.start(journal.run)
            await wait_all_tasks_blocked(0.01)
            journal.close()


async def test_a_flush_without_progress_is_given_up_and_says_what_is_lost(threaded: bool) -> None:
    store = FaultyStore(MemoryStore())
    store.go_down()
    journal = Journal(store, "a", threaded=threaded, flush_s=0.1)
    journal.offer(some_entries(7))
    journal.close()
    with (
        trio.fail_after(10),
        pytest.raises(StoreFailed, match=r"7 entries lost \(7 counted\): faulty"),
    ):
        await journal.run()
    with pytest.raises(StoreFailed):
        await journal.durable(7)


async def test_a_store_that_hangs_cannot_hold_up_the_end() -> None:
    store = FaultyStore(MemoryStore())
    store.delay(6_000)
    journal = Journal(store, "a", flush_s=0.1)
    journal.offer(some_entries(1))
    journal.close()
    with (
        trio.fail_after(5),
        pytest.raises(StoreFailed, match=r"1 entry lost \(1 counted\): the store did"),
    ):
        await journal.run()


async def test_a_broken_commit_callback_is_raised_after_the_flush(threaded: bool) -> None:
    store = MemoryStore()

    def broken(_entries: int, _seconds: float) -> None:
        raise LookupError("callback")

    journal = Journal(store, "a", threaded=threaded, batch_entries=1, on_commit=broken)
    for n in range(5):
        journal.offer(some_entries(1, n))
    raised: list[BaseException] = []
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(journal.run)
            await journal.durable(1)
            await trio.sleep_forever()
    except* LookupError as errors:
        raised += errors.exceptions
    assert [str(error) for error in raised] == ["callback"]
    assert store.head().seq == 5


async def test_commits_are_timed(threaded: bool) -> None:
    store = FaultyStore(MemoryStore())
    store.delay(20)
    seen: list[tuple[int, float]] = []
    journal = Journal(store, "a", threaded=threaded, on_commit=lambda n, s: seen.append((n, s)))
    journal.offer(some_entries(3))
    journal.close()
    await journal.run()
    assert [n for n, _ in seen] == [3]
    assert 0.02 <= seen[0][1] < 2


def test_the_writer_thread_ends_when_its_loop_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventlog.writer.LOOP_CHECK_S", 0.02)
    store = FaultyStore(MemoryStore())
    journal = Journal(store, "a")
    threads: list[threading.Thread] = []

    async def lose_the_loop() -> None:
        thread = journal._start_writer()
        assert thread is not None
        threads.append(thread.thread)
        store.fail_next(2)
        journal.offer(some_entries(4))

    trio.run(lose_the_loop)
    threads[0].join(10)
    assert not threads[0].is_alive()
    assert store.head().seq == 4, "what was offered is written all the same"


def test_a_writer_without_loop_does_not_try_a_dead_store_for_ever() -> None:
    store = FaultyStore(MemoryStore())
    store.go_down()
    journal = Journal(store, "a")
    threads: list[threading.Thread] = []

    async def lose_the_loop() -> None:
        thread = journal._start_writer()
        assert thread is not None
        threads.append(thread.thread)
        journal.offer(some_entries(4))

    trio.run(lose_the_loop)
    threads[0].join(10)
    assert not threads[0].is_alive()


def test_virtual_time_does_not_run_away_from_an_inline_journal() -> None:
    store = FaultyStore(MemoryStore())
    store.fail_next(6)

    async def main() -> float:
        journal = Journal(store, "a", threaded=False)
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            await nursery.start(journal.run)
            with trio.fail_after(3600):
                await journal.durable(journal.offer(some_entries(1)))
            journal.close()
        return trio.current_time() - started

    waited = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert waited == pytest.approx(0.01 + 0.02 + 0.04 + 0.08 + 0.16 + 0.32)
