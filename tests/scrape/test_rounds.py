"""Rounds in virtual time: who is scraped when."""

from collections import Counter
from contextlib import suppress
from itertools import pairwise

import pytest
import trio
import trio.testing

from tests.proxy.serving import eventually
from tests.scrape.servers import UNDER_LOAD, pages, reply, serving
from tests.scrape.world import READ, World, after, start
from trioroute.scrape.fetch import Bad


async def test_the_first_round_is_at_once_and_started_comes_after_it(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    world.add("a", after(0.2))
    world.add("b", after(0.1, Bad(cause="refused")))
    await start(world, nursery)
    assert [at for at, _, _ in world.scraped] == [0, 0]
    assert trio.current_time() == pytest.approx(0.2)
    ((read_at, batch),) = world.batches
    assert read_at == pytest.approx(0.2)
    assert batch == {"a": READ}
    ((failed_at, *failure),) = world.failures
    assert failed_at == pytest.approx(0.1)
    assert failure == ["b", "refused", None]


async def test_started_does_not_wait_for_a_fetch_that_hangs(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    world.add("a", after(1000))
    await start(world, nursery)
    assert trio.current_time() == pytest.approx(2.25)


async def test_started_comes_at_once_without_targets(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    await start(world, nursery)
    assert trio.current_time() == 0


async def test_every_replica_is_scraped_each_interval_with_its_own_jitter(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    for name in "abcdef":
        world.add(name)
    await start(world, nursery)
    await trio.sleep(31)
    offsets = []
    for name in "abcdef":
        times = world.times(name)
        assert len(times) == 11
        for n, at in enumerate(times[1:], 1):
            assert 3 * n <= at <= 3 * n + 0.301
            offsets.append(round(at - 3 * n, 6))
    assert len(set(offsets)) == len(offsets)
    assert max(offsets) > 0.15


async def test_a_scrape_that_is_still_open_takes_the_turn_of_the_next(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    world.add("slow", after(7))
    world.add("quick")
    await start(world, nursery)
    await trio.sleep(30)
    assert world.most_open == 1
    assert len(world.times("slow")) == 4
    assert world.counted["slow", "skipped"] > 4
    gaps = [later - at for at, later in pairwise(world.times("quick"))]
    assert max(gaps) <= 3.301


async def test_a_new_replica_is_scraped_within_a_second_and_one_that_leaves_is_dropped(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    world.add("a")
    await start(world, nursery, interval_ms=60_000)
    await trio.sleep(10.2)
    world.add("b", after(1000, Bad(cause="timeout")))
    await trio.sleep(1)
    assert len(world.times("b")) == 1
    assert world.open["b"] == 1
    del world.targets["b"]
    await trio.sleep(1)
    assert world.open["b"] == 0
    await trio.sleep(100)
    assert len(world.times("b")) == 1
    assert world.failures == []
    assert ("b", "timeout") not in world.counted


async def test_another_url_under_the_same_name_is_another_replica(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    world.known["a"] = ("m",)
    world.add("a", models=())
    await start(world, nursery)
    await trio.sleep(7)
    assert [ask for _, _, ask in world.scraped] == [True, False, False]
    world.add("a", models=(), url="http://elsewhere")
    await trio.sleep(0.6)
    assert [ask for _, _, ask in world.scraped] == [True, False, False, True]


async def test_a_long_pause_is_followed_by_one_round_not_by_a_storm(
    world: World, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    world.add("a", after(0))
    rounds = world.rounds(fetch=world.fetch)
    nursery.start_soon(rounds.run)
    await trio.testing.wait_all_tasks_blocked()
    assert len(world.scraped) == 1
    mock_clock.jump(3600)
    for _ in range(20):
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(0.05)
    assert len(world.scraped) == 2
    assert world.counted == {("a", "ok"): 2}  # and no missed round counted as skipped


async def test_models_are_asked_first_every_twentieth_time_and_on_request(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    world.known["a"] = ("m",)
    world.add("a", models=())
    world.add("configured", models=("x",))
    rounds = await start(world, nursery)
    await trio.sleep(3 * 30 + 1)
    rounds.refresh_models("a")
    rounds.refresh_models("configured")
    rounds.refresh_models("nobody")
    await trio.sleep(6)
    asked = [ask for _, name, ask in world.scraped if name == "a"]
    assert [n for n, ask in enumerate(asked) if ask] == [0, 20, 31]
    assert not any(ask for _, name, ask in world.scraped if name == "configured")


async def test_models_are_asked_again_after_a_failure_and_while_none_are_known(
    world: World, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    world.add("a", models=())
    await start(world, nursery)
    await trio.sleep(6.5)
    assert [ask for _, _, ask in world.scraped] == [True] * 3
    world.known["a"] = ("m",)
    world.answers["a"] = after(0, Bad(cause="refused"))
    await trio.sleep(3)
    world.answers["a"] = after(0)
    await trio.sleep(6)
    assert [ask for _, _, ask in world.scraped] == [True] * 3 + [False, True, False]


async def test_a_replica_that_drips_never_delays_the_others() -> None:
    """Real sockets, real time; the load page of A comes one byte a second."""
    world = World()
    open_now, most = 0, 0

    async def trickle(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            for byte in reply(UNDER_LOAD):
                await stream.send_all(bytes([byte]))
                await trio.sleep(1)

    async def drip(stream: trio.SocketStream, _path: str, _head: bytes) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trickle, stream)
            with suppress(trio.BrokenResourceError):
                await stream.receive_some()  # until the scraper hangs up
            nursery.cancel_scope.cancel()
        open_now -= 1

    quick = pages(metrics=reply(UNDER_LOAD))
    async with serving(drip) as a, serving(quick) as b, serving(quick) as c:
        for name, url in (("a", a), ("b", b), ("c", c)):
            world.add(name, url=url)
        async with trio.open_nursery() as nursery:
            rounds = world.rounds(interval_ms=200, timeout_ms=1800, fetch=None)
            nursery.start_soon(rounds.run)
            await eventually(lambda: len(world.failures) == 2)  # two scrapes of A
            nursery.cancel_scope.cancel()
    first_failure = world.failures[0][0]
    early = [batch for at, batch in world.batches if at < first_failure]
    read = Counter(name for batch in early for name in batch)
    assert min(read["b"], read["c"]) >= 3  # 9 rounds while A dripped; a loaded machine loses some
    assert read["a"] == 0
    assert {failure[1:] for failure in world.failures} == {("a", "timeout", None)}
    assert most == 1
    assert {reading.own for batch in early for reading in batch.values()} == {7}
