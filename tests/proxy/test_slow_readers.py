"""Clients that leave a stream of tokens unread: given up by the kernel, whose buffer never
fills, and named as what they are."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import pytest
import trio

from tests.proxy import serving
from tests.proxy.asker import asking
from tests.proxy.replies import chunk, stream_head, token
from tests.proxy.scripted import Peer
from tests.proxy.serving import RawClient
from tests.proxy.whole import CHAT, LIMITS, Whole, chat, request, whole

pytestmark = pytest.mark.usefixtures("either_way")

STALL_MS = 500
NARROW = 4096
STREAMED = chat(stream=True)
STALLED = ("client_stall", "timeout", "client")


async def speaks_slowly(peer: Peer) -> None:
    """So few that the kernel takes them for long: the router never waits for the client."""
    await peer.request()
    await peer.send(stream_head())
    while not peer.gone.is_set():
        await peer.send(chunk(token("x" * 20)))
        await trio.sleep(0.005)


@asynccontextmanager
async def narrow(port: int) -> AsyncIterator[RawClient]:
    """A client for which the kernel keeps little."""
    sock = trio.socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW)
    await sock.connect(("127.0.0.1", port))
    transport = trio.SocketStream(sock)
    try:
        if serving.spoken is None:
            yield RawClient(transport)
        else:
            context = serving.spoken.client()
            stream = trio.SSLStream(
                transport, context, server_hostname="127.0.0.1", https_compatible=True
            )
            await stream.do_handshake()
            yield RawClient(stream)
    finally:
        sock.close()


def limited() -> AbstractAsyncContextManager[Whole]:
    limits = attrs.evolve(LIMITS, client_stall_ms=STALL_MS)
    return whole(speaks_slowly, limits=limits, timeouts={"client_stall_ms": STALL_MS})


async def ending(rig: Whole) -> tuple[str, str, str]:
    released = await rig.released()
    return released.outcome, released.cause, released.blame


async def test_a_client_that_leaves_tokens_unread_has_stalled_and_not_left() -> None:
    async with limited() as rig, narrow(rig.port) as raw:
        await raw.send(request(STREAMED))
        await raw.head()
        assert await ending(rig) == STALLED


async def test_over_http2_too() -> None:
    async with limited() as rig, asking(rig, pair=serving.spoken, buffer=NARROW) as asker:
        stream = await asker.ask(CHAT, json.dumps(STREAMED).encode())
        await asker.read(lambda: stream in asker.heads)
        assert await ending(rig) == STALLED


async def test_one_that_leaves_while_it_has_not_taken_all_has_left() -> None:
    async with limited() as rig:
        async with narrow(rig.port) as raw:
            await raw.send(request(STREAMED))
            await raw.head()
            raw.reset()
        assert await ending(rig) == ("client_gone", "cancelled", "client")
