"""What rounds hand on: readings in batches, failures at once, models when they differ."""

import attrs
import pytest
import trio
import trio.testing

from tests.scrape.world import GOOD, READ, World, after, start
from trioroute.scrape.fetch import Bad, ScrapeResult


async def test_a_round_is_one_batch_when_all_answer_within_a_quarter_second(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    for name in "abcd":
        world.add(name)
    await start(world, nursery, interval_ms=2000)  # jitter of at most 200 ms
    await trio.sleep(20.5)
    assert [set(batch) for _, batch in world.batches] == [set("abcd")] * 11
    last = max(world.times(name)[-1] for name in "abcd")
    assert world.batches[-1][0] == pytest.approx(last + 0.01)


async def test_a_slow_replica_holds_the_others_readings_for_a_quarter_second_only(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    world.add("slow", after(1.9))
    world.add("quick")
    await start(world, nursery)
    (first_at, first), (second_at, second) = world.batches
    assert [first, second] == [{"quick": READ}, {"slow": READ}]
    assert [first_at, second_at] == [pytest.approx(0.26), pytest.approx(1.9)]


async def test_a_failure_is_reported_at_once_and_behind_an_older_reading(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    results: list[ScrapeResult] = [GOOD, Bad(cause="status", status=500)]

    async def answer(_ask: bool) -> ScrapeResult:
        await trio.sleep(0.001)
        return results.pop(0) if len(results) > 1 else results[0]

    world.add("a", answer)
    world.add("slow", after(1))  # keeps the batch of the first round open
    await start(world, nursery, interval_ms=100)
    assert world.batches[0][1] == {"a": READ}
    assert world.failures[0][1:] == ("a", "status", 500)
    assert world.failures[0][0] == world.batches[0][0] < 0.15


async def test_a_reading_of_one_that_left_is_not_handed_on(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    world.add("slow", after(1.9))
    rounds = world.rounds(fetch=world.fetch)
    nursery.start_soon(rounds.run)
    await trio.sleep(0.4)
    world.add("b", after(0.001))  # read at 0.5, waits for the slow one until 0.75
    await trio.sleep(0.15)
    assert world.open["b"] == 0
    assert len(world.times("b")) == 1
    del world.targets["b"]
    rounds._meet(nursery)
    await trio.sleep(3)
    assert "b" not in {name for _, batch in world.batches for name in batch}


async def test_a_reading_names_models_only_when_they_differ(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    with_models = attrs.evolve(GOOD, models=("m", "n"))
    world.known["same"] = ("m", "n")
    world.known["other"] = ("m",)
    for name in ("same", "other", "new"):
        world.add(name, after(0.01, with_models), models=())
    await start(world, nursery)
    ((_, batch),) = world.batches
    assert {name: reading.models for name, reading in batch.items()} == {
        "same": None,
        "other": ("m", "n"),
        "new": ("m", "n"),
    }


async def test_failing_to_get_models_fails_the_scrape_only_while_none_are_known(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    no_models = attrs.evolve(GOOD, models_fault=Bad(cause="status", status=401))
    world.known["known"] = ("m",)
    world.add("known", after(0.01, no_models), models=())
    world.add("new", after(0.01, no_models), models=())
    await start(world, nursery)
    assert [(name, cause, status) for _, name, cause, status in world.failures] == [
        ("new", "status", 401)
    ]
    assert [dict(batch) for _, batch in world.batches] == [{"known": READ}]
