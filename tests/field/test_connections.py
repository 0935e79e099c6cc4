"""Keep-alive races, pools, sockets and addresses."""

import random

import attrs
import trio

from tests.field.site import OpenSite, prompt
from tests.field.stub import Stub
from tests.proxy.replies import chunk, reply, stream_head, token
from tests.proxy.scripted import Peer, always
from tests.proxy.serving import client, eventually
from tests.proxy.whole import LIMITS, request, whole
from trioroute import events as e


async def test_pool_slot_leak_on_cancel(open_site: OpenSite) -> None:
    """The replica accepts late, so many are cancelled while the connection is being made."""
    chance = random.Random(1)
    stub = Stub(always(reply()))
    async with open_site(stub, admission__max_in_flight=10, scrape__interval="60s") as site:
        stub.accept_delay_s = lambda: chance.random() * 0.02
        places = trio.CapacityLimiter(30)

        async def one(at: int) -> None:
            async with places, site.connect() as raw:
                await site.send(raw, prompt(f"{at}"))
                with trio.move_on_after(chance.random() * 0.1):
                    await raw.reply()
                raw.reset()

        async with trio.open_nursery() as nursery:
            for at in range(600):
                nursery.start_soon(one, at)
        await site.quiet()
        stub.accept_delay_s = None
        with trio.fail_after(20):
            assert (await site.ask()).status == 200
        assert stub.most_open <= 10
        assert await site.standing("a") == "LIVE"


async def test_keep_alive_race_between_router_and_replica(open_site: OpenSite) -> None:
    """A silent close of idle connections, just when the next request comes."""
    seen: list[bytes] = []

    async def closes_idle(peer: Peer) -> None:
        while True:
            taken = b""
            with trio.move_on_after(0.05):
                taken = await peer.request()
            if not taken:
                return
            seen.append(taken)
            await peer.send(reply())

    async with open_site(Stub(closes_idle)) as site:

        async def client_of(at: int) -> None:
            chance = random.Random(at)
            for _ in range(25):
                assert (await site.ask(prompt(f"{at}"))).status == 200
                await trio.sleep(0.05 + chance.uniform(-0.005, 0.005))

        async with trio.open_nursery() as nursery:
            for at in range(8):
                nursery.start_soon(client_of, at)
        assert len(seen) == 200
        assert len(await site.events(e.Dispatched)) == 200
        assert await site.standing("a") == "LIVE"


async def test_keep_alive_race_between_front_proxy_and_router() -> None:
    """Requests around the idle limit are answered whole or not begun; being used restarts it."""
    limits = attrs.evolve(LIMITS, keep_alive_s=0.3)
    refused = 0
    async with whole(always(reply())) as plain, whole(always(reply()), limits=limits) as rig:
        assert plain.port != rig.port

        async def polls() -> None:
            async with client(rig.port) as raw:
                answered_at = trio.current_time()
                for _ in range(8):
                    try:
                        await raw.send(request())
                        assert (await raw.reply()).status == 200
                    except (EOFError, trio.BrokenResourceError):  # on a machine that stood still
                        assert trio.current_time() - answered_at >= limits.keep_alive_s
                        return
                    answered_at = trio.current_time()
                    await trio.sleep(0.15)

        async def at_the_limit(late_s: float) -> None:
            nonlocal refused
            async with client(rig.port) as raw:
                await raw.send(request())
                await raw.reply()
                await trio.sleep(late_s)
                try:
                    await raw.send(request())
                    answer = await raw.reply()
                    assert (answer.status, answer.body) == (200, b'{"ok":true}')
                except (EOFError, trio.BrokenResourceError):
                    assert raw.buffer == b""
                    refused += 1

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(polls)
            for at in range(100):
                nursery.start_soon(at_the_limit, 0.25 + at * 0.002)
        assert refused < 100


async def test_half_open_tcp(open_site: OpenSite) -> None:
    """A host that is gone without a word: its connections stand, and nothing comes any more."""
    gone = False

    async def host(peer: Peer) -> None:
        while taken := await peer.request():
            await eventually(lambda: not gone)
            if b'"stream": true' in taken:
                await peer.send(stream_head() + chunk(token("a")))
                await peer.wait_gone()
            else:
                await peer.send(reply())

    async def no_page(peer: Peer) -> None:
        await peer.wait_gone()

    settings = {"timeouts__idle": 0.6, "scrape__timeout": 0.2, "eject__cooldown": 0.2}
    stub = Stub(host)
    async with open_site(stub, probing__window=0.1, **settings) as site:
        async with trio.open_nursery() as nursery:
            for at in range(5):
                nursery.start_soon(site.ask, prompt(f"{at}"))
        kept = list(stub.peers)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(site.broken)
            await eventually(lambda: len(stub.peers) >= 3)
            await trio.sleep(0.1)
            gone = True
            page, stub.page = stub.page, no_page
            await site.becomes("a", "EJECTED")
        await eventually(lambda: all(peer.gone.is_set() for peer in kept))
        assert set(await site.outcomes()) == {"ok", "idle_timeout"}
        gone, stub.page = False, page
        await site.becomes("a", "LIVE")
        before = len(stub.peers)
        assert (await site.ask()).status == 200
        assert len(stub.peers) == before + 1


async def test_a_kept_connection_that_died_does_not_linger(open_site: OpenSite) -> None:
    closing = trio.Event()

    async def closes_when_told(peer: Peer) -> None:
        await peer.request()
        await peer.send(reply())
        await closing.wait()
        await peer.stream.send_eof()
        await peer.wait_gone()

    stub = Stub(closes_when_told)
    async with open_site(stub) as site:
        assert (await site.ask()).status == 200
        closing.set()
        await eventually(lambda: stub.peers[0].gone.is_set())
