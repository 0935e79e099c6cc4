"""What the stream of events tells beside them: changed settings, and a router that stood still."""

from contextlib import aclosing
from typing import Any

import pytest
import trio

from tests.observe.rig import Rig, reading
from tests.observe.test_event_stream import blocks
from trioroute.events import InForce
from trioroute.observe.feed import MEMORY_EVENTS, Feed
from trioroute.policy.commands import Configure, Drain, Leave, Start, Stop
from trioroute.settings import with_changes


@pytest.fixture
def rig() -> Rig:
    return Rig()


SLOWER = with_changes(InForce(), {"eject.cooldown": "1m"})


async def told(feed: Feed, after: int, *kinds: str) -> list[dict[str, Any]]:
    """All that is there."""
    found: list[dict[str, Any]] = []
    with trio.fail_after(20):
        async with aclosing(feed.pages(after, kinds)) as pages:
            async for page in pages:
                found += blocks(page)
                if found[-1].get("event") == "now":
                    break
    return found[:-1]


async def changes(rig: Rig, *, noted: bool) -> list[object]:
    """Of each ``Configured``, from the memory of the feed or from the log."""
    feed = rig.feed()
    rig.live("a")
    rig.handle(Configure, settings=SLOWER)
    rig.handle(Configure, settings=SLOWER)
    if not noted:
        feed = rig.feed()
    for _ in range(3):  # the last three are not committed
        rig.scrape(a=reading())
    found = await told(feed, 0, "Configured")
    return [one["data"].get("changed") for one in found]


@pytest.mark.parametrize("noted", [True, False])
async def test_changed_settings_are_told_with_what_they_were_and_are(rig: Rig, noted: bool) -> None:
    assert await changes(rig, noted=noted) == [None, ["eject.cooldown 30s -> 1m"], []]


async def test_settings_before_what_was_read_are_looked_up(rig: Rig) -> None:
    rig.live("a")
    seen = rig.log.position
    changed = rig.handle(Configure, settings=SLOWER)
    for _ in range(3):  # the last three are not committed
        rig.scrape(a=reading())
    feed = rig.feed()
    asked = list[int]()

    def before(version: int) -> InForce | None:
        asked.append(version)
        return rig.in_force_before(version)

    feed.in_force_before = before
    (found,) = await told(feed, seen, "Configured")
    assert found["data"]["changed"] == ["eject.cooldown 30s -> 1m"]
    assert asked == [changed]


async def standstills(rig: Rig) -> list[dict[str, int]]:
    """Told to who asks for other kinds of events only."""
    for _ in range(4):  # the last three are not committed
        rig.scrape(a=reading())
    found = await told(rig.feed(), 1, "Draining")
    return [one["data"] for one in found if one.get("event") == "standstill"]


def scrape_every(rig: Rig, pause_ms: int, times: int = 4) -> None:
    for _ in range(times):
        rig.now_ms += pause_ms
        rig.scrape(a=reading())


async def test_a_hole_that_scrapes_do_not_leave_is_told_as_a_standstill(rig: Rig) -> None:
    rig.live("a")
    scrape_every(rig, 3000)
    from_ms = rig.now_ms
    scrape_every(rig, 41_000, times=1)
    scrape_every(rig, 3000)
    assert await standstills(rig) == [{"from_ms": from_ms, "to_ms": from_ms + 41_000}]


async def test_who_watches_is_told_a_standstill_with_the_event_that_ends_it(rig: Rig) -> None:
    feed = rig.feed()
    rig.live("a")
    scrape_every(rig, 3000, times=MEMORY_EVENTS // 100)
    from_ms = rig.now_ms
    rig.now_ms += 41_000
    drained = rig.handle(Drain, replica="a", on=True)
    scrape_every(rig, 3000)
    found = await told(feed, 0, "Draining")
    assert [one.get("event") for one in found] == ["standstill", None]
    assert [int(one["id"]) for one in found] == [drained - 1, drained]
    assert found[0]["data"] == {"from_ms": from_ms, "to_ms": from_ms + 41_000}


async def test_slow_scrapes_an_empty_fleet_and_a_restart_are_no_standstill(rig: Rig) -> None:
    rig.handle(Configure, settings=with_changes(InForce(), {"scrape.interval": "40s"}))
    rig.live("a")
    scrape_every(rig, 41_000)
    rig.handle(Configure, settings=InForce())
    scrape_every(rig, 3000)
    rig.handle(Stop, cause="SIGTERM")
    rig.now_ms += 60_000
    rig.handle(Start, router="r1", release="0", rules=1)
    scrape_every(rig, 3000)
    rig.handle(Leave, replica="a")
    rig.now_ms += 60_000
    rig.live("b")
    assert await standstills(rig) == []
