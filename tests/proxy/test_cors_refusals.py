"""Refusals below the application: the page of an allowed origin can read why."""

from functools import partial

import pytest

from tests.proxy.serving import Recorder, client, serving
from tests.proxy.test_hangup_guard import h2_client
from trioroute.proxy.cors import readers_of_refusals
from trioroute.proxy.serving.asgi import Receive, Scope, Send
from trioroute.proxy.serving.limits import ServerLimits

APP, OTHER = "https://app.example.com", "https://other.example.com"
SMALL = ServerLimits(
    graceful_timeout_s=5,
    body_bytes=1000,
    header_bytes=4000,
    header_count=20,
    url_bytes=1000,
    header_timeout_s=0.2,
    body_timeout_s=0.2,
)
ORIGIN = f"origin: {APP}\r\n".encode()
POST = b"POST / HTTP/1.1\r\nhost: t\r\n" + ORIGIN
MANY = b"".join(b"x-%d: 1\r\n" % n for n in range(30))
REFUSED = {
    "a large body": (413, POST + b"content-length: 5000\r\n\r\n"),
    "large chunks": (413, POST + b"transfer-encoding: chunked\r\n\r\n1388\r\n"),
    "a broken chunk": (400, POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n"),
    "many headers": (431, POST + MANY + b"\r\n"),
    "a large head": (431, POST + b"x: " + b"a" * 5000 + b"\r\n\r\n"),
    "a large head without an end": (431, POST + b"x: " + b"a" * 5000),
    "a long URL": (414, b"GET /" + b"a" * 1100 + b" HTTP/1.1\r\nhost: t\r\n" + ORIGIN + b"\r\n"),
    "a bad header": (400, POST + b"x y: 1\r\n\r\n"),
    "a slow head": (408, POST),
    "a slow body": (408, POST + b"content-length: 5\r\n\r\n"),
    "a version": (505, POST.replace(b"HTTP/1.1", b"HTTP/2.0") + b"\r\n"),
    "a websocket": (501, POST + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"),
}


def of(*origins: str) -> partial[list[tuple[bytes, bytes]]]:
    return partial(readers_of_refusals, origins)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("what", REFUSED)
async def test_every_refusal_of_a_lean_connection_names_who_may_read_it(what: str) -> None:
    status, sent = REFUSED[what]
    async with serving(Recorder(), SMALL, refusal_headers=of(OTHER, APP)) as server:
        async with client(server.port) as c:
            await c.send(sent)
            told = await c.reply()
        async with client(server.port) as c:
            await c.send(sent.replace(APP.encode(), b"https://evil.example.com"))
            stranger = await c.reply()
    assert (told.status, stranger.status) == (status, status)
    assert told.headers["access-control-allow-origin"] == APP
    assert "retry-after" in told.headers["access-control-expose-headers"]
    assert told.headers["vary"] == stranger.headers["vary"] == "origin"
    assert "access-control-allow-origin" not in stranger.headers


async def failing(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("meant")


async def test_a_fault_of_the_router_can_be_read_too() -> None:
    async with serving(failing, SMALL, refusal_headers=of(APP)) as server:
        async with client(server.port) as c:
            await c.send(POST + b"\r\n")
            lean = await c.reply()
        async with h2_client(server.port) as h2:
            framed = await h2.get("/", headers={"origin": APP})
    assert (lean.status, framed.status_code) == (500, 500)
    assert lean.headers["access-control-allow-origin"] == APP
    assert framed.headers["access-control-allow-origin"] == APP


async def test_http2_refuses_as_readably() -> None:
    async with serving(Recorder(), SMALL, refusal_headers=of(APP, OTHER)) as server:
        async with h2_client(server.port) as h2:
            told = await h2.post("/", content=b"x" * 5000, headers={"origin": APP})
            stranger = await h2.post("/", content=b"x" * 5000, headers={"origin": "https://x"})
    assert (told.status_code, stranger.status_code) == (413, 413)
    assert told.headers["access-control-allow-origin"] == APP
    assert "access-control-allow-origin" not in stranger.headers


async def test_one_connection_too_many_names_the_only_origin_there_is() -> None:
    one = ServerLimits(graceful_timeout_s=5, max_connections=1)
    for origins, named in (((APP,), APP), (("*",), "*"), ((APP, OTHER), None), ((), None)):
        async with serving(Recorder(), one, refusal_headers=of(*origins)) as server:
            async with client(server.port) as first:
                await first.send(b"GET / HTTP/1.1\r\nhost: t\r\n\r\n")
                await first.reply()
                async with client(server.port) as second:
                    told = await second.reply()
        assert told.status == 503
        assert told.headers.get("access-control-allow-origin") == named


async def test_the_headers_of_a_request_are_not_those_of_the_one_before() -> None:
    async with serving(Recorder(), SMALL, refusal_headers=of(APP, OTHER)) as server:
        async with client(server.port) as c:
            await c.send(POST + b"\r\n")
            assert (await c.reply()).status == 200
            await c.send(b"nonsense nonsense nonsense\r\n\r\n")
            told = await c.reply()
    assert told.status == 400
    assert "access-control-allow-origin" not in told.headers
