"""Journal: what it takes, what it refuses, and when it is durable."""

import pytest
import trio
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from eventlog import Entry, JournalFull, MemoryStore
from eventlog.conformance import some_entries
from eventlog.faults import FaultyStore
from eventlog.journal import Journal
from eventlog.record import same_entries
from eventlog.writer import COMMIT_EVERY_S


def waiting_batch(count: int, size: int = 2) -> list[Entry]:
    return [Entry("k", 1, 0, 0, b"1" * size) for _ in range(count)]


async def test_offers_are_stored_in_order_with_the_versions_they_were_told(threaded: bool) -> None:
    store = MemoryStore()
    store.append("a", some_entries(2), 0)
    journal = Journal(store, "a", threaded=threaded)
    assert (journal.next_version, journal.position, journal.durable_position) == (3, 2, 2)
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        assert journal.offer(some_entries(2, 2)) == 3
        assert journal.offer(some_entries(1, 4)) == 5
        assert (journal.next_version, journal.depth) == (6, 3)
        assert not journal.is_durable(5)
        await journal.durable(5)
        assert journal.is_durable(5)
        assert (journal.depth, journal.pending_bytes, journal.durable_position) == (0, 0, 5)
        journal.close()
    assert same_entries(store.read(), some_entries(5))


async def test_what_is_offered_before_run_is_written_once_it_runs(threaded: bool) -> None:
    store = MemoryStore()
    journal = Journal(store, "a", threaded=threaded)
    for n in range(10):
        journal.offer(some_entries(1, n))
    assert store.head().seq == 0
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        await journal.durable(10)
        assert journal.commits == 1, "ten offers that wait are one commit"
        journal.close()
    assert same_entries(store.read(), some_entries(10))


async def test_offer_never_gives_way_to_another_task(threaded: bool) -> None:
    journal = Journal(MemoryStore(), "a", threaded=threaded)
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        with assert_no_checkpoints():
            journal.offer(some_entries(3))
        await journal.durable(3)
        with assert_no_checkpoints():
            await journal.durable(3)
        journal.close()


async def test_an_offer_is_never_split_between_commits(threaded: bool) -> None:
    store = MemoryStore()
    commits: list[int] = []
    journal = Journal(
        store, "a", threaded=threaded, batch_entries=4, on_commit=lambda n, _: commits.append(n)
    )
    for n in range(4):
        journal.offer(some_entries(3, 3 * n))
    journal.offer(some_entries(9, 12))
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        await journal.durable(21)
        journal.close()
    assert commits == [6, 6, 9]
    assert journal.commits == 3
    assert same_entries(store.read(), some_entries(21))


async def test_commits_keep_their_distance_so_that_offers_gather() -> None:
    journal = Journal(MemoryStore(), "a")
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        began_s = trio.current_time()
        for n in range(200):
            journal.offer(some_entries(1, n))
            await trio.sleep(0.0003)
        await journal.durable(200)
        took_s = trio.current_time() - began_s
        assert journal.commits <= took_s / COMMIT_EVERY_S + 2
        journal.close()


async def test_durable_wakes_only_those_whose_version_is_covered() -> None:
    store = FaultyStore(MemoryStore())
    journal = Journal(store, "a", threaded=False, batch_entries=1)
    woken: list[int] = []

    async def wait(version: int) -> None:
        await journal.durable(version)
        assert journal.durable_position >= version
        woken.append(version)

    async with trio.open_nursery() as nursery:
        for n in range(4):
            journal.offer(some_entries(1, n))
        for version in (3, 1, 4, 2, 3):
            nursery.start_soon(wait, version)
        await wait_all_tasks_blocked()
        await nursery.start(journal.run)
        nursery.start_soon(journal.durable, 4)
        await journal.durable(2)
        journal.close()
    assert sorted(woken) == [1, 2, 3, 3, 4]
    assert woken.index(1) < woken.index(2) < woken.index(4)


async def test_a_waiter_that_leaves_does_not_disturb_the_others(threaded: bool) -> None:
    store = FaultyStore(MemoryStore())
    store.go_down()
    journal = Journal(store, "a", threaded=threaded)
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        version = journal.offer(some_entries(1))
        for _ in range(50):
            with trio.move_on_after(0) as scope:
                await journal.durable(version)
            assert scope.cancelled_caught
        store.heal()
        with trio.fail_after(10):
            await journal.durable(version)
        journal.close()


async def test_a_version_nobody_offered_cannot_be_waited_for() -> None:
    journal = Journal(MemoryStore(), "a")
    journal.offer(some_entries(2))
    with pytest.raises(ValueError, match="version 3 of 'a' was never offered: the last is 2"):
        await journal.durable(3)


def test_a_full_journal_refuses_and_nothing_has_changed() -> None:
    journal = Journal(MemoryStore(), "a", max_entries=5, max_bytes=100, reserve_entries=0)
    journal.offer(waiting_batch(4))
    before = (journal.next_version, journal.depth, journal.pending_bytes)
    with pytest.raises(JournalFull, match="4 entries of 8 bytes") as by_entries:
        journal.offer(waiting_batch(2))
    assert (by_entries.value.entries, by_entries.value.max_entries) == (4, 5)
    with pytest.raises(JournalFull):
        journal.offer(waiting_batch(1, size=93))
    assert (journal.next_version, journal.depth, journal.pending_bytes) == before
    assert journal.offer(waiting_batch(1, size=92)) == 5


def test_what_must_be_taken_may_use_the_reserve_but_not_more() -> None:
    journal = Journal(MemoryStore(), "a", max_entries=2, max_bytes=10, reserve_entries=3)
    journal.offer(waiting_batch(2, size=5))
    with pytest.raises(JournalFull):
        journal.offer(waiting_batch(1))
    assert journal.offer(waiting_batch(3), must_take=True) == 3
    with pytest.raises(JournalFull) as full:
        journal.offer(waiting_batch(1), must_take=True)
    assert (full.value.max_entries, full.value.max_bytes) == (5, 10 + 3 * 1024)
    assert journal.depth == 5


async def test_room_comes_back_with_each_commit(threaded: bool) -> None:
    store = MemoryStore()
    journal = Journal(store, "a", max_entries=3, max_bytes=6, threaded=threaded)
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        for _ in range(20):
            await journal.durable(journal.offer(waiting_batch(3)) + 2)
        journal.close()
    assert store.head().seq == 60


def test_a_body_that_is_not_text_is_refused_before_anything_changes() -> None:
    journal = Journal(MemoryStore(), "a")
    with pytest.raises(ValueError, match="'k' entry is not UTF-8"):
        journal.offer([*some_entries(1), Entry("k", 1, 0, 0, b'"\xff"')])
    assert (journal.next_version, journal.depth, journal.pending_bytes) == (1, 0, 0)
    assert journal.offer([]) == 1
    assert journal.depth == 0
