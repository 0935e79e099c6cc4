"""A connection that is closed behind an answer while its client has sent more already."""

import socket

import pytest
import trio

from tests.proxy.serving import (
    GET,
    RawClient,
    chunk,
    client,
    eventually,
    open_files,
    serving,
    start,
)
from trioroute.proxy.serving import refusing
from trioroute.proxy.serving.asgi import BrokenEnding, Receive, Scope, Send

pytestmark = pytest.mark.usefixtures("either_way")

SIZE = 1 << 18
CLOSING = b"GET / HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n"


def take_slowly(c: RawClient) -> None:
    """Most of an answer is still with the server when the server is done with it."""
    c.transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)


class Large:
    """Answers with SIZE bytes in one chunk once it may, and ends broken if it is told to."""

    def __init__(self, *, broken: bool = False) -> None:
        self.began, self.go = trio.Event(), trio.Event()
        self._broken = broken

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began.set()
        await self.go.wait()
        await start(send)
        await chunk(send, b"x" * SIZE)
        if self._broken:
            raise BrokenEnding
        await chunk(send, b"", more=False)


@pytest.mark.parametrize("draining", [False, True], ids=["asked to close", "shutdown"])
async def test_an_answer_comes_whole_although_its_client_pipelined(draining: bool) -> None:
    app = Large()
    async with serving(app) as server, client(server.port) as c:
        await c.send(GET if draining else CLOSING)
        take_slowly(c)
        await app.began.wait()
        if draining:
            server.shutdown.set()
        await c.send(GET)
        await trio.sleep(0.05)
        app.go.set()
        await trio.sleep(0.3)
        reply = await c.reply()
        assert (reply.headers["connection"], len(reply.body)) == ("close", SIZE)
        assert await c.ended()


async def test_a_broken_answer_comes_as_far_as_it_was_told() -> None:
    app = Large(broken=True)
    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        take_slowly(c)
        await app.began.wait()
        await c.send(GET)
        await trio.sleep(0.05)
        app.go.set()
        await c.head()
        await trio.sleep(0.3)
        assert len(await c.rest()) == len(b"40000\r\n") + SIZE + len(b"\r\n")


async def test_the_server_is_done_with_it_when_the_client_is() -> None:
    app = Large()
    app.go.set()
    async with serving(app) as server:
        files = open_files()
        async with client(server.port) as c:
            await c.send(CLOSING + GET)
            await c.reply()
            assert await c.ended()
        await eventually(lambda: open_files() == files, refusing.LINGER_S - 2)


async def test_a_client_that_stays_holds_up_no_shutdown_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Large()
    app.go.set()
    async with serving(app) as server, client(server.port) as c:
        await c.send(CLOSING + GET)
        await c.reply()
        assert await c.ended()
        server.shutdown.set()
        with trio.fail_after(refusing.LINGER_S - 2):
            await server.stopped.wait()
    monkeypatch.setattr(refusing, "LINGER_S", 0.1)
    async with serving(app) as server:
        files = open_files()
        async with client(server.port) as c:
            await c.send(CLOSING + GET)
            await c.reply()
            await eventually(lambda: open_files() == files + 1)
