"""What nobody waits for: it is committed in company, and the loop is not woken for it."""

import time
from types import SimpleNamespace

import pytest
import trio

from eventlog.conformance import some_entries
from eventlog.durability import Durability
from eventlog.journal import Journal
from eventlog.memory import MemoryStore
from eventlog.writer import AWAITED_EVERY_S, COMMIT_EVERY_S, COMPANY_S, Backlog, WriterThread


async def _committed(store: MemoryStore, seq: int) -> float:
    """Seconds until the store holds so many rows; the journal itself is not asked."""
    began_s = time.monotonic()
    with trio.fail_after(40):
        while store.head().seq < seq:  # noqa: ASYNC110 - a store tells nobody
            await trio.sleep(0.001)
    return time.monotonic() - began_s


async def test_an_ending_waits_for_company_and_a_beginning_brings_it_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("eventlog.writer.COMPANY_S", 30.0)
    store = MemoryStore()
    journal = Journal(store, "a")
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        journal.offer(some_entries(1))
        await journal.durable(1)
        journal.offer(some_entries(1, 1), must_take=True)
        await trio.sleep(0.05)
        assert store.head().seq == 1, "it waits"
        journal.offer(some_entries(1, 2))
        await journal.durable(3)
        assert journal.commits == 2
        journal.close()


async def test_an_ending_alone_is_committed_all_the_same() -> None:
    store = MemoryStore()
    journal = Journal(store, "a")
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        journal.offer(some_entries(1))
        await journal.durable(1)
        journal.offer(some_entries(1, 1), must_take=True)
        assert await _committed(store, 2) < 5
        await trio.sleep(3 * COMPANY_S)  # now the writer sleeps for long
        journal.offer(some_entries(1, 2), must_take=True)
        assert await _committed(store, 3) < 5
        journal.close()


async def test_who_waits_for_an_ending_waits_for_its_commit_only() -> None:
    journal = Journal(MemoryStore(), "a")
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        for n in range(20):
            journal.offer(some_entries(1, n), must_take=True)
            with trio.fail_after(40):
                await journal.durable(n + 1)
        assert journal.commits == 20
        journal.close()


async def test_the_loop_is_woken_for_a_commit_only_if_somebody_waits() -> None:
    store = MemoryStore()
    woken: list[str] = []

    class Steps(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            woken.append(task.name)

    journal = Journal(store, "a")
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        journal.offer(some_entries(1))
        await journal.durable(1)
        trio.lowlevel.add_instrument(Steps())
        journal.offer(some_entries(1, 1))
        await _committed(store, 2)
        await trio.sleep(0.1)  # what is to be woken for it would be by now
        assert not [name for name in woken if "run_sync_soon" in name]
        assert journal.is_durable(2), "it is seen when somebody looks"
        journal.offer(some_entries(1, 2))
        await journal.durable(3)
        assert [name for name in woken if "run_sync_soon" in name]
        journal.close()


async def test_a_commit_begins_at_the_end_of_the_turn_and_not_in_the_middle_of_a_task() -> None:
    """Else a request's way to its replica is as long as a commit's hold on the interpreter."""
    store = MemoryStore()
    journal = Journal(store, "a")
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        await trio.sleep(3 * COMPANY_S)  # the writer sleeps: every offer is to wake it up
        for must_take in (False, True):
            before = store.head().seq
            journal.offer(some_entries(1, before), must_take=must_take)
            time.sleep(0.05)  # noqa: ASYNC251 - as sending a request: the lock is free
            assert store.head().seq == before
            assert await _committed(store, before + 1) < 5
            await trio.sleep(3 * COMPANY_S)
        journal.close()


@pytest.mark.parametrize(("awaited", "kept_s"), [(True, AWAITED_EVERY_S), (False, COMMIT_EVERY_S)])
def test_commits_come_sooner_after_each_other_while_somebody_waits(
    awaited: bool, kept_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr(
        "eventlog.writer.time", SimpleNamespace(sleep=sleep, perf_counter=lambda: now_s)
    )
    durability = Durability(0, lambda _batch, _seconds: None)
    durability.awaited = awaited
    report = durability.report(failed=_never, ended=_never)
    writer = WriterThread(MemoryStore(), "a", Backlog(1), report, lambda *_: True)
    writer._keep_distance(0.0)
    assert now_s == pytest.approx(kept_s)


def _never(_: object) -> None:
    raise AssertionError
