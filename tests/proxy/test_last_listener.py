"""Closing the listening socket resets whoever the kernel has taken and nobody has accepted."""

import socket
from contextlib import ExitStack

import pytest
import trio

from tests.proxy import serving as speech
from tests.proxy.serving import GET, RawClient, echo, serving
from trioroute.proxy.serving import hub

pytestmark = pytest.mark.usefixtures("either_way")


def _speaking(sock: socket.socket) -> RawClient:
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    if speech.spoken is None:
        return RawClient(stream)
    context = speech.spoken.client()
    return RawClient(trio.SSLStream(stream, context, server_hostname="127.0.0.1"))


async def test_who_connected_before_the_end_is_answered_and_who_comes_behind_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "FIRST_REQUEST_S", 4.0)  # twenty handshakes, both ends in this thread
    async with serving(echo) as server:
        with ExitStack() as stack:
            in_line = [
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                for _ in range(20)  # without a checkpoint: none of them is accepted yet
            ]
            server.shutdown.set()
            async with trio.open_nursery() as nursery:
                for sock in in_line:
                    sock.setblocking(False)
                    nursery.start_soon(_ask, _speaking(sock))
        with pytest.raises(OSError):
            await trio.open_tcp_stream("127.0.0.1", server.port)
        with trio.fail_after(20):
            await server.stopped.wait()


async def _ask(raw: RawClient) -> None:
    await raw.send(GET)
    reply = await raw.reply()
    assert (reply.status, reply.headers["connection"]) == (200, "close")
    assert await raw.ended()
