"""Faults of shutdown (group J): nobody waits for ever, nobody who would have ended is cut."""

from contextlib import AsyncExitStack

import attrs
import pytest
import trio

from tests.proxy.replies import DONE, LAST, chunk, stream_head, token
from tests.proxy.scripted import Peer
from tests.proxy.serving import RawClient, Reply, client, eventually
from tests.proxy.whole import LIMITS, chat, cut_body, request, whole
from trioroute import events as e

GRACE_S = 1.0
CHUNKED = Reply(200, {"transfer-encoding": "chunked"}, b"")


async def _streams(peer: Peer) -> None:
    """For half the grace time, or for ever if the user says so."""
    taken = await peer.request()
    await peer.send(stream_head())
    for _ in range(10 if b"brief" in taken else 10_000):
        await peer.send(chunk(token("a")))
        await trio.sleep(GRACE_S / 20)
    await peer.send(chunk(DONE) + LAST)


async def test_graceful_shutdown() -> None:
    """The exit code and the signals are those of ../e2e/test_process.py."""
    limits = attrs.evolve(LIMITS, graceful_timeout_s=GRACE_S)
    async with whole(_streams, limits=limits) as rig, AsyncExitStack() as stack:

        async def connected() -> RawClient:
            return await stack.enter_async_context(client(rig.port))

        idle, half = await connected(), [await connected() for _ in range(5)]
        await idle.send(request(b"", "/health", "GET"))
        await idle.reply()
        for raw in half:
            await raw.send(request()[:-5])
        running: dict[str, list[RawClient]] = {"brief": [], "endless": []}
        for what, raws in running.items():
            for _ in range(10):
                raws.append(await connected())
                await raws[-1].send(request(chat(stream=True, user=what)))
                await raws[-1].until(b"\r\n\r\n")
        rig.desk.stopping = True
        rig.shutdown.set()
        begin = trio.current_time()
        assert await idle.ended()
        with pytest.raises((OSError, EOFError, trio.BrokenResourceError)):
            await (await connected()).reply()
        for raw in running["brief"]:
            body = await raw.rest()
            assert body.endswith(b"0\r\n\r\n")
            assert DONE in body
        assert trio.current_time() - begin < GRACE_S
        for raw in running["endless"]:
            body = await cut_body(raw, CHUNKED)
            assert b"[DONE]" not in body
        for raw in half:
            assert b" 200 " not in await raw.rest()
        assert trio.current_time() - begin < 2 * GRACE_S
        await eventually(lambda: not rig.in_flight)
        outcomes = [one.outcome for one in await rig.events(e.Released)]
        assert sorted(outcomes) == ["ok"] * 10 + ["shutdown"] * 10
