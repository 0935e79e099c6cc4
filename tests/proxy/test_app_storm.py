"""Five hundred requests, replicas and clients that fail at random, and a log that adds up."""

import json
import random
from collections import Counter
from typing import Any

import pytest
import trio

from tests.proxy.replies import GOOD_STREAM, LAST, chunk, error, reply, stream, stream_head, token
from tests.proxy.scripted import Peer, Script
from tests.proxy.serving import RawClient, client
from tests.proxy.whole import Whole, request, whole
from trioroute import events as e

REQUESTS = 500
AT_ONCE = 60


def fickle(seed: int) -> Script:
    """A replica that does anything, mostly the right thing."""
    chance = random.Random(seed)

    async def script(peer: Peer) -> None:
        while await peer.request():
            await trio.sleep(chance.random() * 0.01)
            what = chance.randrange(16)
            if what == 0:
                return
            if what == 1:
                peer.reset()
                return
            if what == 2:
                await peer.send(b"noise\r\n\r\n")
                return
            if what == 3:
                await peer.send(stream_head() + chunk(token("a")))
                await trio.sleep(0.005)
                return
            if what == 4:
                await peer.wait_gone()
                return
            if what == 5:
                await peer.send(stream_head() + chunk(token("a")))
                await peer.wait_gone()
                return
            if what == 6:
                await peer.send(reply(b"x" * 100)[:-10])
                return
            await peer.send(
                {
                    7: reply(b"no", 503, "retry-after: 0"),
                    8: reply(b"no", 500),
                    9: stream(error(503)),
                    10: reply(b"bad", 400),
                    11: stream(token("a"), token("", "abort"), LAST),
                }.get(what, stream(*GOOD_STREAM) if what % 2 else reply())
            )

    return script


class Storm:
    """The clients; ``seen`` counts how their requests ended for them."""

    def __init__(self, rig: Whole, seed: int) -> None:
        self.rig = rig
        self.chance = random.Random(seed)
        self.seen: Counter[str] = Counter()
        self.slots = trio.CapacityLimiter(AT_ONCE)

    def request(self) -> bytes:
        chance = self.chance
        body = {
            "model": chance.choice(["m", "m", "m", "n", "none"]),
            "session_id": f"s{chance.randrange(20)}" if chance.random() < 0.5 else None,
            "messages": [
                {"role": "system", "content": f"p{chance.randrange(4)}"},
                {"role": "user", "content": "x" * chance.randrange(5000)},
            ],
        }
        path = chance.choice(["/v1/chat/completions"] * 8 + ["/v1/files", "/v1/responses"])
        return request(json.dumps(body).encode(), path, headers=["x-request-id: same"])

    async def one(self) -> None:
        async with self.slots, client(self.rig.port) as raw:
            await raw.send(self.request())
            patience_s = self.chance.random() * 0.03 if self.chance.random() < 0.3 else 30
            with trio.move_on_after(patience_s):
                self.seen[await self._answer(raw)] += 1
                return
            self.seen["left"] += 1
            if self.chance.random() < 0.5:
                raw.reset()
            else:
                await raw.half_close()

    async def _answer(self, raw: RawClient) -> str:
        try:
            return str((await raw.reply()).status)
        except (EOFError, trio.BrokenResourceError):
            return "broken"


async def fleet_life(rig: Whole, seed: int) -> None:
    """Scrapes, ejects and returns while the storm lasts."""
    chance = random.Random(seed)
    names = list(rig.router.state.fleet.replicas)
    while True:
        await trio.sleep(0.02)
        if chance.random() < 0.1:
            rig.eject(chance.choice(names))
        rig.scrape()


@pytest.mark.parametrize("seed", [1])
async def test_whatever_happens_every_dispatch_has_one_end(seed: int) -> None:
    in_force: Any = {
        "timeouts": {"first_byte_ms": 200, "idle_ms": 200},
        "eject": {"cooldown_ms": 20, "cooldown_max_ms": 50, "stream_grace_ms": 100},
        "probing": {"window_ms": 30},
        "admission": {"max_wait_ms": 200, "max_waiting": 20, "max_in_flight": 12},
        "retries": {"budget_m": 500},
    }
    models = (("m",), ("m",), ("m", "n"), ("n",))
    scripts = [fickle(seed * 10 + at) for at in range(4)]
    async with whole(*scripts, models=models, **in_force) as rig:
        storm = Storm(rig, seed)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fleet_life, rig, seed)
            async with trio.open_nursery() as clients:
                for _ in range(REQUESTS):
                    clients.start_soon(storm.one)
            nursery.cancel_scope.cancel()
        assert storm.seen.total() == REQUESTS
        assert {"200", "404", "left", "broken"} <= set(storm.seen)
        ends = await rig.ends()
        outcomes = {end.outcome for end in ends if isinstance(end, e.Released)}
        assert {"ok", "client_gone", "upstream_cut"} <= outcomes
        assert outcomes <= {
            "ok",
            "client_error",
            "client_gone",
            "upstream_cut",
            "upstream_error",
            "first_byte_timeout",
            "idle_timeout",
        }
        assert all(load.own == 0 for load in rig.router.state.load.replicas.values())
