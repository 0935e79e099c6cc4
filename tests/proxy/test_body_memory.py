"""A prompt is held until its answer begins, not until it ends."""

import tracemalloc
from contextlib import AsyncExitStack

import trio

from tests.proxy.replies import chunk, stream_head, token
from tests.proxy.scripted import Peer
from tests.proxy.serving import client
from tests.proxy.whole import chat, request, whole

STREAMS = 10
PROMPT_BYTES = 500_000


async def streams(peer: Peer) -> None:
    await peer.request()
    await peer.send(stream_head() + chunk(token("a")))
    await peer.wait_gone()


async def test_an_open_stream_does_not_hold_its_prompt() -> None:
    async with whole(streams) as rig, AsyncExitStack() as stack:

        async def opened() -> None:
            raw = await stack.enter_async_context(client(rig.port))
            await raw.send(request(chat(stream=True, user="x" * PROMPT_BYTES)))
            await raw.until(token("a"))

        await opened()
        tracemalloc.start()
        try:
            for _ in range(STREAMS):
                await opened()
            await trio.sleep(0.05)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert rig.in_flight == STREAMS + 1
        assert held < 2 * PROMPT_BYTES
