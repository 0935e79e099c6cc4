"""The short guarantees of RULES 7 over real sockets; with their switch-off where a setting is one.

Replicas hold every answer until the test lets go, and nobody is scraped meanwhile: all that the
router can know of the load is what it sent itself.
"""

from collections import Counter
from typing import Any

import trio

from tests.proxy.scripted import Peer
from tests.proxy.serving import Reply, eventually
from tests.proxy.whole import NAMES, Whole, chat, whole
from trioroute import events as e
from trioroute.policy import commands as c

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
TOKEN = "four"
"""Four bytes: a token, as it is estimated (RULES 3)."""


class Held:
    """A script that keeps every request until ``open`` is set."""

    def __init__(self) -> None:
        self.open = trio.Event()

    async def __call__(self, peer: Peer) -> None:
        while await peer.request():
            await self.open.wait()
            await peer.send(ANSWER)


async def asked(rig: Whole, held: Held, *tokens: int) -> list[str]:
    """Requests of so many tokens, all before any is answered: where each went, by its place."""
    answers: dict[int, Reply] = {}

    async def one(at: int, count: int) -> None:
        message = {"role": "user", "content": TOKEN * count}
        answers[at] = await rig.ask(chat(messages=[message]))

    async with trio.open_nursery() as nursery:
        for at, count in enumerate(tokens):
            nursery.start_soon(one, at, count)
        await eventually(lambda: rig.in_flight == len(tokens))
        held.open.set()
    assert {answer.status for answer in answers.values()} == {200}
    return [answers[at].headers["x-trioroute-replica"] for at in range(len(tokens))]


def running(rig: Whole, **counts: int) -> None:
    """A scrape finds so many requests of others running."""
    readings = {
        name: e.Reading(running=count, waiting=0, kv_m=None, tokens=None, asleep=False, own=0)
        for name, count in counts.items()
    }
    rig.do(c.Observe, readings=readings)


def four(held: Held, **sections: Any) -> Any:
    return whole(held, held, held, held, **sections)


async def test_a_hundred_at_once_between_two_scrapes_are_25_each() -> None:
    held = Held()
    async with four(held) as rig:
        went = Counter(await asked(rig, held, *[200] * 100))
        assert went == dict.fromkeys(NAMES[:4], 25)


async def test_four_heavy_ones_among_a_hundred_go_to_four_replicas() -> None:
    """In whatever order they come: 100,000 tokens outweigh all the light ones together."""
    held = Held()
    async with four(held) as rig:
        sizes = [100_000 if number % 25 == 0 else 4 for number in range(100)]
        went = await asked(rig, held, *sizes)
        heavy = [name for name, size in zip(went, sizes, strict=True) if size > 4]
        assert sorted(heavy) == list(NAMES[:4])


async def test_two_at_one_instant_do_not_both_take_the_idle_one() -> None:
    held = Held()
    async with four(held) as rig:
        running(rig, a=1, b=1, c=0, d=1)
        went = await asked(rig, held, 1500, 1500)
        assert "c" in went
        assert len(set(went)) == 2


async def test_both_take_it_where_it_stays_the_least_loaded() -> None:
    held = Held()
    async with four(held) as rig:
        running(rig, a=5, b=5, c=0, d=5)
        assert await asked(rig, held, 1500, 1500) == ["c", "c"]


async def heavy_and_ten(**sections: Any) -> tuple[str, list[str]]:
    held = Held()
    async with four(held, **sections) as rig, trio.open_nursery() as nursery:
        message = {"role": "user", "content": TOKEN * 100_000}
        nursery.start_soon(rig.ask, chat(messages=[message]))
        await eventually(lambda: rig.in_flight == 1)
        (first,) = await rig.events(e.Dispatched)
        ten: list[str] = []

        async def one() -> None:
            light = {"role": "user", "content": TOKEN * 1000}
            ten.append((await rig.ask(chat(messages=[light]))).headers["x-trioroute-replica"])

        for _ in range(10):
            nursery.start_soon(one)
        await eventually(lambda: rig.in_flight == 11)
        held.open.set()
        await eventually(lambda: len(ten) == 10)
    return first.replica, ten


async def test_ten_light_ones_go_around_the_heavy_one() -> None:
    heavy, ten = await heavy_and_ten()
    assert heavy not in ten
    assert sorted(Counter(ten).values()) == [3, 3, 4]


async def test_without_weights_some_join_the_heavy_one() -> None:
    heavy, ten = await heavy_and_ten(wlc={"unit_tokens": 1_000_000})
    assert heavy in ten
