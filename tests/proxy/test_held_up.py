"""While the server itself stands still, no limit runs for its clients."""

import socket
import threading
import time
from collections.abc import Awaitable, Callable

import pytest
import trio

from tests.proxy import serving as spoken_by
from tests.proxy.replies import LAST
from tests.proxy.serving import GET, RawClient, chunk, client, echo, serving, start
from trioroute.proxy.serving.asgi import Receive, Scope, Send
from trioroute.proxy.serving.limits import ServerLimits

pytestmark = pytest.mark.usefixtures("either_way")

LIMITS = ServerLimits(
    client_stall_ms=600, header_timeout_s=0.6, body_timeout_s=0.6, keep_alive_s=0.6
)
SIZE = 16 << 20
POST = b"POST / HTTP/1.1\r\nhost: t\r\n"


def stand_still() -> None:
    """For twice every limit, as a paused process does: server and client share this thread."""
    time.sleep(1.3)


async def sends(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send)
    for _ in range(SIZE >> 16):
        await chunk(send, b"x" * (1 << 16))
    await chunk(send, b"", more=False)


async def test_a_client_that_takes_an_answer_is_no_stalled_one() -> None:
    """It is another thread, or it would stand still too."""
    begin, got = threading.Event(), [0]

    def takes(port: int) -> None:
        to = socket.create_connection(("127.0.0.1", port), 10)
        if spoken_by.spoken is not None:
            to = spoken_by.spoken.client().wrap_socket(to, server_hostname="127.0.0.1")
        with to:
            to.sendall(GET)
            begin.wait(10)
            while data := to.recv(1 << 16):
                got[0] += len(data)
                if data.endswith(LAST):
                    break

    async with serving(sends, LIMITS) as server, trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, takes, server.port)
        await trio.sleep(0.3)
        begin.set()
        stand_still()
    assert got[0] > SIZE


async def in_the_head(c: RawClient) -> None:
    await c.send(POST[:9])
    await trio.sleep(0.05)
    stand_still()
    await c.send(POST[9:] + b"content-length: 4\r\n\r\nbody")


async def in_the_body(c: RawClient) -> None:
    await c.send(POST + b"content-length: 4\r\n\r\nb")
    for piece in (b"o", b"dy"):
        await trio.sleep(0.05)
        stand_still()
        await c.send(piece)


async def in_chunks(c: RawClient) -> None:
    await c.send(POST + b"transfer-encoding: chunked\r\n\r\n2\r\nbo")
    await trio.sleep(0.05)
    stand_still()
    await c.send(b"\r\n2\r\ndy\r\n")
    await trio.sleep(0.05)
    await c.send(b"0\r\n\r\n")


@pytest.mark.parametrize("asks", [in_the_head, in_the_body, in_chunks])
async def test_a_request_that_is_coming_is_not_late(
    asks: Callable[[RawClient], Awaitable[None]],
) -> None:
    async with serving(echo, LIMITS) as server, client(server.port) as c:
        await asks(c)
        assert (await c.reply()).body == b"body"
    assert server.refusals == []


async def test_one_that_comes_too_slowly_is_late_all_the_same() -> None:
    async with serving(echo, LIMITS) as server, client(server.port) as c:
        await c.send(POST + b"content-length: 4\r\n\r\nb")
        await trio.sleep(0.05)
        stand_still()
        assert (await c.reply()).status == 408


async def test_an_idle_connection_grew_old() -> None:
    async with serving(echo, LIMITS) as server, client(server.port) as c:
        await c.send(GET)
        await c.reply()
        await trio.sleep(0.05)
        stand_still()
        with trio.fail_after(0.4):
            assert await c.ended()
