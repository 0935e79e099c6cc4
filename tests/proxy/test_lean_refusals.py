"""Requests that never reach the application."""

import json
from collections.abc import AsyncIterator

import pytest
import trio

from tests.proxy.serving import GET, QUICK, Recorder, client, echo, serving, web_client
from trioroute.proxy.serving.limits import ServerLimits

pytestmark = pytest.mark.usefixtures("either_way")

POST = b"POST / HTTP/1.1\r\nhost: t\r\n"

SMUGGLED = {
    "two lengths": POST + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
    "length list": POST + b"content-length: 3, 3\r\n\r\nabc",
    "signed length": POST + b"content-length: +3\r\n\r\nabc",
    "length and chunked": POST
    + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": POST
    + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
    "chunked, gzip": POST + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "gzip, chunked": POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked junk": POST + b"transfer-encoding: chunked x\r\n\r\n0\r\n\r\n",
    "chunked space": POST + b"transfer-encoding: chunked \r\n\r\n0\r\n\r\n",
    "xchunked": POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked twice": POST
    + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "identity first": POST
    + b"transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked in 1.0": b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare LF in head": b"GET / HTTP/1.1\nhost: t\r\n\r\n",
    "bare LF everywhere": b"GET / HTTP/1.1\nhost: t\n\n",
    "bare LF between headers": b"GET / HTTP/1.1\r\nhost: t\nx: y\r\n\r\n",
    "space before colon": POST + b"content-length : 3\r\n\r\nabc",
    "tab before colon": POST + b"x\t: 3\r\n\r\n",
    "folded": POST + b"x: a\r\n b\r\n\r\n",
    "folded first": b"GET / HTTP/1.1\r\n host: t\r\n\r\n",
    "bare CR in value": POST + b"x: a\rb\r\n\r\n",
    "NUL in value": POST + b"x: a\x00b\r\n\r\n",
    "NUL in name": POST + b"x\x00y: a\r\n\r\n",
    "no colon": POST + b"nonsense\r\n\r\n",
    "empty name": POST + b": x\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    "fragment": b"GET /a#b HTTP/1.1\r\nhost: t\r\n\r\n",
    "authority target": b"CONNECT a:1 HTTP/1.1\r\nhost: t\r\n\r\n",
    "two spaces": b"GET  / HTTP/1.1\r\nhost: t\r\n\r\n",
    "raw UTF-8 target": "GET /é HTTP/1.1\r\nhost: t\r\n\r\n".encode(),
    "bad chunk size": POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    "negative chunk": POST + b"transfer-encoding: chunked\r\n\r\n-1\r\n",
    "0x chunk": POST + b"transfer-encoding: chunked\r\n\r\n0x3\r\nabc\r\n",
    "space after size": POST + b"transfer-encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
    "bare LF after size": POST + b"transfer-encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
    "chunk too long": POST + b"transfer-encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "bad trailer": POST + b"transfer-encoding: chunked\r\n\r\n0\r\nx y\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "noise": bytes(255 - n % 251 for n in range(100_000)),
    "letters": b"A" * 100_000,
    "late preface": GET + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("name", SMUGGLED)
async def test_bytes_with_two_readings_are_refused_and_nothing_gets_through(name: str) -> None:
    app = Recorder()
    expected = 505 if name == "late preface" else 400
    async with serving(app) as server, client(server.port) as c:
        await c.send(SMUGGLED[name] + b"GET /smuggled HTTP/1.1\r\nhost: t\r\n\r\n")
        if name == "late preface":
            assert (await c.reply()).status == 200
        reply = await c.reply()
        assert reply.status == expected
        assert reply.headers["connection"] == "close"
        error = json.loads(reply.body)["error"]
        assert error["type"] == "invalid_request_error"
        assert set(error) == {"message", "type", "param", "code"}
        assert await c.ended()
        async with client(server.port) as other:  # and the process lives
            await other.send(GET)
            assert (await other.reply()).status == 200
    assert "/smuggled" not in [scope["path"] for scope in app.scopes]
    assert len(app.scopes) == (2 if name == "late preface" else 1)
    assert len(server.refusals) == 1


async def test_equal_lengths_are_merged() -> None:
    async with serving(echo) as server, client(server.port) as c:
        await c.send(POST + b"content-length: 3\r\ncontent-length: 3\r\n\r\nabc")
        assert (await c.reply()).body == b"abc"


@pytest.mark.parametrize("piece", [1 << 20, 1000])
@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        (b"GET /" + b"a" * 16_384 + b" HTTP/1.1\r\nhost: t\r\n\r\n", 414, "uri_too_long"),
        (POST + b"x: " + b"a" * 66_000 + b"\r\n\r\n", 431, "headers_too_large"),
        (POST + b"x: y\r\n" * 300 + b"\r\n", 431, "headers_too_large"),
        (b"GET / HTTP/3.0\r\nhost: t\r\n\r\n", 505, "unsupported_version"),
    ],
)
async def test_a_head_over_its_limits(
    request_bytes: bytes, status: int, code: str, piece: int
) -> None:
    app = Recorder()
    async with serving(app) as server, client(server.port) as c:
        for at in range(0, len(request_bytes), piece):
            await c.send(request_bytes[at : at + piece])
        reply = await c.reply()
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (status, code)
        assert await c.ended()
    assert server.refusals == [code]
    assert app.scopes == []


SMALL = ServerLimits(body_bytes=1024 * 1024)


async def test_a_body_over_the_limit_is_answered_readably_and_the_client_goes_on() -> None:
    app = Recorder()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(8):
            yield b"x" * 1024 * 1024

    async with serving(app, SMALL) as server:
        async with web_client(server) as c:
            known = await c.post("/", content=b"x" * 8 * 1024 * 1024)
            unknown = await c.post("/", content=pieces())
            after = await c.post("/", content=b"small")
    for reply in (known, unknown):
        assert reply.status_code == 413
        assert reply.json()["error"]["code"] == "body_too_large"
        assert reply.headers["connection"] == "close"
    assert after.content == b"small"
    assert server.refusals == ["body_too_large"] * 2
    assert [m["body"] for m in app.messages] == [b"small"]


async def test_a_body_at_the_limit_is_taken() -> None:
    async with serving(echo, SMALL) as server:
        async with web_client(server) as c:
            reply = await c.post("/", content=b"x" * 1024 * 1024)
    assert len(reply.content) == 1024 * 1024


async def test_an_expecting_client_is_refused_before_it_sends_a_byte() -> None:
    async with serving(echo, SMALL) as server, client(server.port) as c:
        await c.send(POST + b"expect: 100-continue\r\ncontent-length: 9999999\r\n\r\n")
        assert (await c.reply()).status == 413


@pytest.mark.parametrize(
    "beginning", [b"GET / HTTP/1.1\r\nhost:", POST + b"content-length: 5\r\n\r\nab"]
)
async def test_a_client_that_dawdles_gets_408(beginning: bytes) -> None:
    limits = ServerLimits(header_timeout_s=0.2, body_timeout_s=0.2)
    async with serving(echo, limits) as server, client(server.port) as c:
        await c.send(beginning)
        reply = await c.reply()
        assert reply.status == 408
        assert await c.ended()
    assert server.refusals == ["request_timeout"]


async def test_one_connection_too_many_is_told_so() -> None:
    async with serving(echo, ServerLimits(max_connections=2)) as server:
        async with client(server.port) as a, client(server.port) as b:
            for c in (a, b):
                await c.send(GET)
                assert (await c.reply()).status == 200
            async with client(server.port) as c:
                reply = await c.reply()
                assert (reply.status, reply.headers["retry-after"]) == (503, "1")
                assert await c.ended()
            a.transport.socket.close()
            await trio.sleep(0.05)
            async with client(server.port) as c:
                await c.send(GET)
                assert (await c.reply()).status == 200
    assert server.refusals == ["overloaded"]


async def test_an_unusable_listen_address_is_named() -> None:
    from trioroute.proxy.serving.server import serve_http

    with pytest.raises(ValueError, match="'nowhere'"):
        await serve_http(echo, ["nowhere"], QUICK, shutdown=trio.Event())
    async with serving(echo) as server:
        with pytest.raises(OSError, match=f"127.0.0.1:{server.port}"):
            await serve_http(
                echo, ["127.0.0.1:0", f"127.0.0.1:{server.port}"], QUICK, shutdown=trio.Event()
            )
