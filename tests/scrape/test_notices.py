"""What the process log says: changes of state, and no more."""

import logging

import attrs
import pytest
import trio
import trio.testing

from tests.scrape.world import GOOD, World, after, start
from trioroute.scrape.fetch import Bad, Ours
from trioroute.scrape.page import PageReading


async def test_what_the_router_cannot_ask_is_neither_good_nor_failed(
    world: World,
    autojump_clock: trio.testing.MockClock,
    nursery: trio.Nursery,
    caplog: pytest.LogCaptureFixture,
) -> None:
    world.add("a", after(0, Ours(why="no file descriptor left")))
    await start(world, nursery)
    await trio.sleep(30.5)
    assert (world.batches, world.failures) == ([], [])
    assert world.counted == {("a", "router"): 11}
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_the_log_has_one_line_per_change_of_state(
    world: World,
    autojump_clock: trio.testing.MockClock,
    nursery: trio.Nursery,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "trioroute.scrape")
    unknown = attrs.evolve(GOOD, page=PageReading())
    world.add("a", after(0))
    await start(world, nursery)
    for result in (
        Bad(cause="refused"),
        Bad(cause="status", status=401),
        unknown,
        GOOD,
        Bad(cause="status", status=500),
    ):
        world.answers["a"] = after(0, result)
        await trio.sleep(60)
    lines = [record.getMessage().removeprefix("replica a: ") for record in caplog.records]
    assert [line.split(";")[0][:40] for line in lines] == [
        "scrapes succeed",
        "scrapes fail, refused",
        "scrapes fail, authentication: it answere",
        "scrapes succeed",
        "load unknown, it answers without the ser",
        "its load is known again",
        "scrapes fail, status 500",
    ]
    assert "api_key_env" in lines[2]
    assert len(world.scraped) > 90
