"""Client disconnect and cancellation: the replica is let go of, counted right, blamed never."""

import trio

from tests.field.site import STREAMED, OpenSite
from tests.field.stub import Stub
from tests.proxy.replies import chunk, silent, stream_head, token
from tests.proxy.scripted import Peer
from tests.proxy.serving import eventually

A_TICK_S = 0.05


async def ticking(peer: Peer) -> None:
    """One small event each tick, until the router leaves."""
    await peer.request()
    await peer.send(stream_head())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.wait_gone)
        while not peer.gone.is_set():
            await peer.send(chunk(token("a")))
            await trio.sleep(A_TICK_S)


async def test_lost_disconnect_signal_in_the_server_layer(open_site: OpenSite) -> None:
    async with open_site(Stub(ticking)) as site:
        for leave in ("reset", "close", "half-close"):
            async with site.connect() as raw:
                await site.send(raw, STREAMED)
                for _ in range(3):
                    await raw.until(b"\n\n")
                begin = trio.current_time()
                if leave == "reset":
                    raw.reset()
                elif leave == "close":
                    raw.stream.socket.close()
                else:
                    await raw.half_close()
                await site.stubs["a"].peers[-1].gone.wait()
                assert trio.current_time() - begin < 1
        assert await site.outcomes() == ["client_gone"] * 3


async def test_cancel_not_passed_upstream_without_a_stream(open_site: OpenSite) -> None:
    async with open_site(Stub(silent)) as site:
        stub = site.stubs["a"]

        async def impatient() -> None:
            async with site.connect() as raw:
                await site.send(raw)
                await eventually(lambda: len(stub.peers) == 20)

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(impatient)
        await eventually(lambda: stub.open == 0, 1)
        assert await site.outcomes() == ["client_gone"] * 20
        assert await site.standing("a") == "LIVE"
