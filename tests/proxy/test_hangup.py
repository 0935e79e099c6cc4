"""A client that goes away is noticed in every phase."""

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

from tests.loop_time import loop_time
from tests.proxy.serving import GET, RawClient, chunk, client, eventually, say, serving, start
from trioroute.proxy.serving.asgi import Receive, Scope, Send
from trioroute.proxy.serving.hangup import client_gone
from trioroute.proxy.serving.wire import CALLS_PER_CHECKPOINT

pytestmark = pytest.mark.usefixtures("either_way")

Leave = Callable[[RawClient], Awaitable[None]]


async def closes(c: RawClient) -> None:
    c.transport.socket.close()


async def resets(c: RawClient) -> None:
    c.reset()


async def half_closes(c: RawClient) -> None:
    await c.half_close()


LEAVING = [closes, resets, half_closes]


@attrs.define
class Watcher:
    """Notes how each call ended, in a plain `finally`, as the router does."""

    stream: bool
    began: int = 0
    ends: list[tuple[bool, bool]] = attrs.field(factory=list)
    """(finished by itself, client gone)"""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began += 1
        finished = False
        try:
            await receive()
            if self.stream:
                await start(send)
                for _ in range(10_000):
                    await chunk(send, b"data: x\n\n")
                    await trio.sleep(0.01)
            await trio.sleep(60)
            finished = True
        finally:
            self.ends.append((finished, client_gone(scope)))


@pytest.mark.parametrize("leave", LEAVING)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_running_request_is_cancelled(leave: Leave, stream: bool) -> None:
    app = Watcher(stream)
    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        await eventually(lambda: app.began == 1)
        if stream:
            await c.until(b"data: x\n\n")
        async with loop_time() as spent:
            await leave(c)
            await eventually(lambda: bool(app.ends))
        assert spent.seconds < 1
    assert app.ends == [(False, True)]


@pytest.mark.parametrize("leave", LEAVING)
async def test_unread_pipelined_bytes_do_not_hide_it(leave: Leave) -> None:
    app = Watcher(stream=False)
    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        await eventually(lambda: app.began == 1)
        await c.send(GET * 3)
        await trio.sleep(0.05)
        await leave(c)
        await eventually(lambda: bool(app.ends))
    assert app.ends == [(False, True)]
    assert app.began == 1  # the ones behind it never start


@pytest.mark.parametrize("leave", LEAVING)
async def test_a_client_that_leaves_within_its_body_starts_nothing(leave: Leave) -> None:
    app = Watcher(stream=False)
    async with serving(app) as server:
        for framing in (
            b"content-length: 10\r\n\r\nabc",
            b"transfer-encoding: chunked\r\n\r\n5\r\n",
        ):
            async with client(server.port) as c:
                await c.send(b"POST / HTTP/1.1\r\nhost: t\r\n" + framing)
                await trio.sleep(0.02)
                await leave(c)
                if leave is half_closes:
                    assert await c.ended()
    assert app.began == 0


async def test_an_application_that_only_sends_is_cancelled_too() -> None:
    ended = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await start(send)
            while True:
                await chunk(send, b"x")
        finally:
            assert client_gone(scope)
            ended.set()

    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        await c.head()
        c.reset()
        with trio.fail_after(5):
            await ended.wait()


async def test_leaving_after_the_response_interrupts_nothing() -> None:
    finished = trio.Event()
    go = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await say(send, b"whole")
        await go.wait()
        await trio.sleep(0.05)
        finished.set()

    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        await c.reply()
        c.transport.socket.close()
        await trio.sleep(0.05)
        go.set()
        with trio.fail_after(5):
            await finished.wait()


async def test_a_shutdown_is_not_taken_for_a_hang_up() -> None:
    app = Watcher(stream=False)
    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        await eventually(lambda: app.began == 1)
    assert app.ends == [(False, False)]


async def test_a_failing_release_does_not_stop_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal began
        began += 1
        try:
            await trio.sleep(60 if scope["path"] == "/hang" else 0)
            await say(send, b"ok")
        finally:
            if scope["path"] == "/hang":
                raise OSError("closing upstream failed")

    async with serving(app) as server:
        async with client(server.port) as c:
            await c.send(b"GET /hang HTTP/1.1\r\nhost: t\r\n\r\n")
            await eventually(lambda: began == 1)
        await eventually(lambda: len(caplog.records) == 1)
        async with client(server.port) as c:
            await c.send(GET)
            assert (await c.reply()).body == b"ok"


async def test_a_cancellation_finds_its_place_between_two_pieces_and_tears_none() -> None:
    """Never before the head, which must be there when anything is; never behind a piece that is
    with the client: who has the last bytes may close at once, and has its whole answer."""
    told = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal told
        if scope["path"] == "/short":
            await say(send, b"ok")
            return
        told = 0
        with trio.CancelScope() as interrupted:
            interrupted.cancel()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while told < 100:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
                told += 1
        assert interrupted.cancelled_caught
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async with serving(app) as server, client(server.port) as c:
        for shorter_ones in range(20):
            for _ in range(shorter_ones):
                await c.send(b"GET /short HTTP/1.1\r\nhost: t\r\n\r\n")
                assert (await c.reply()).body == b"ok"
            await c.send(GET)
            answer = await c.reply()
            assert answer.status == 200
            assert 1 <= told < 100
            assert answer.body == b"x" * told


async def test_many_requests_sent_at_once_let_others_run() -> None:
    turns = 0
    over = trio.Event()

    async def others() -> None:
        nonlocal turns
        while not over.is_set():
            await trio.lowlevel.checkpoint()
            turns += 1

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(turns)
        await say(send, b"ok")

    seen: list[int] = []
    async with serving(app) as server, client(server.port) as c, trio.open_nursery() as nursery:
        nursery.start_soon(others)
        await c.send(GET * 500)
        for _ in range(500):
            assert (await c.reply()).body == b"ok"
        over.set()
    longest = max(seen.count(turn) for turn in set(seen))
    assert longest <= 2 * CALLS_PER_CHECKPOINT  # a turn of others lies between two of its own
