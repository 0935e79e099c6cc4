"""What the stream of events tells beside them: changed settings."""

from contextlib import aclosing
from typing import Any

import pytest
import trio

from tests.observe.rig import Rig, reading
from tests.observe.test_event_stream import blocks
from trioroute.events import InForce
from trioroute.observe.feed import Feed
from trioroute.policy.commands import Configure
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
