"""Responses that do not end well: the client must be able to see it."""

import json
import logging
from collections.abc import Awaitable, Callable

import pytest
import trio

from tests.proxy.serving import GET, chunk, client, echo, say, serving, start
from trioroute.proxy.serving.asgi import BrokenEnding, Receive, Scope, Send

pytestmark = pytest.mark.usefixtures("either_way")

GET_1_0 = b"GET / HTTP/1.0\r\n\r\n"


async def fails_first(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send)
    raise KeyError("secret detail")


async def answers_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()


async def splits_a_header(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"x", b"a\r\nset-cookie: b")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await chunk(send, b"x", more=False)


async def fails_in_a_nursery(scope: Scope, receive: Receive, send: Send) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        raise KeyError("secret detail")


async def is_short(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await chunk(send, b"abc", more=False)


@pytest.mark.parametrize(
    "app", [fails_first, answers_nothing, splits_a_header, fails_in_a_nursery, is_short]
)
async def test_a_failure_before_the_first_byte_is_a_json_500(
    app: Callable[[Scope, Receive, Send], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        reply = await c.reply()
        assert reply.status == 500
        assert json.loads(reply.body)["error"]["type"] == "server_error"
        assert b"secret" not in reply.body
        assert await c.ended()
    assert [r.levelno for r in caplog.records] == [logging.ERROR]
    assert server.refusals == []


def broken_after(
    body: bytes, error: Exception, headers: list[tuple[bytes, bytes]]
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await chunk(send, body)
        raise error

    return app


@pytest.mark.parametrize("error", [KeyError("x"), BrokenEnding()])
async def test_a_broken_chunked_body_has_no_last_chunk(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    app = broken_after(b"data: {}\n\n", error, [])
    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        await c.head()
        assert await c.rest() == b"a\r\ndata: {}\n\n\r\n"
    assert len(caplog.records) == (0 if isinstance(error, BrokenEnding) else 1)


async def test_a_broken_body_with_a_length_is_short() -> None:
    app = broken_after(b"abc", BrokenEnding(), [(b"content-length", b"10")])
    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        await c.head()
        assert await c.rest() == b"abc"


async def test_a_broken_body_until_close_is_reset() -> None:
    app = broken_after(b"abc", BrokenEnding(), [])
    async with serving(app) as server, client(server.port) as c:
        await c.send(GET_1_0)
        await c.until(b"abc")
        with pytest.raises(trio.BrokenResourceError):
            await c.fill()


async def test_a_broken_ending_before_the_head_closes_without_an_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise BrokenEnding

    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        assert await c.ended()
    assert caplog.records == []


async def test_more_body_than_announced_never_leaves(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"3")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await chunk(send, b"abc")
        await chunk(send, b"HTTP/1.1 200 OK\r\n", more=False)

    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        await c.head()
        assert await c.rest() == b"abc"
    assert len(caplog.records) == 1


async def test_a_failure_after_the_end_harms_only_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await say(send, b"whole")
        raise KeyError

    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        assert (await c.reply()).body == b"whole"
        assert await c.ended()
    assert len(caplog.records) == 1


async def test_receive_tells_of_the_end_once_the_response_is_complete() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await echo(scope, receive, send)
        seen.append((await receive())["type"])

    async with serving(app) as server, client(server.port) as c:
        await c.send(GET + GET)
        await c.reply()
        await c.reply()
    assert seen == ["http.disconnect"] * 2
