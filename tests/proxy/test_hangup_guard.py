"""Connections that hypercorn serves (HTTP/2, upgrades, TLS): the same application, unchanged."""

import json
import logging

import h2.config
import h2.connection
import h2.events
import h2.settings
import httpx
import pytest
import trio

from tests.certificates import Pair
from tests.proxy.serving import (
    GET,
    RawClient,
    Recorder,
    chunk,
    client,
    eventually,
    port_tls,
    serving,
    start,
)
from tests.proxy.test_hangup import Watcher
from trioroute.proxy.serving.asgi import BrokenEnding, Receive, Scope, Send
from trioroute.proxy.serving.hangup import client_gone
from trioroute.proxy.serving.limits import ServerLimits


def h2_client(port: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(http1=False, http2=True, base_url=f"http://127.0.0.1:{port}")


async def test_http2_by_prior_knowledge_reaches_the_same_application() -> None:
    app = Recorder()
    async with serving(app) as server:
        async with h2_client(server.port) as c:
            replies = [await c.post("/p?q=1", content=b"x" * size) for size in (3, 300_000)]
        async with client(server.port) as plain:
            await plain.send(GET)
            assert (await plain.reply()).status == 200
    assert [r.http_version for r in replies] == ["HTTP/2"] * 2
    assert [len(r.content) for r in replies] == [3, 300_000]
    assert all("date" in r.headers for r in replies)
    assert [s["http_version"] for s in app.scopes] == ["2", "2", "1.1"]
    assert all(not m["more_body"] for m in app.messages)
    assert app.scopes[0]["raw_path"] == b"/p"


async def test_http2_forbidden_headers_do_not_leave() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"Connection", b"close"), (b"Transfer-Encoding", b"chunked"), (b"x", b"y")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await chunk(send, b"ok", more=False)

    async with serving(app) as server, h2_client(server.port) as c:
        reply = await c.get("/")
    assert (reply.content, reply.headers["x"]) == (b"ok", "y")
    assert "connection" not in reply.headers


@pytest.mark.parametrize("stream", [False, True])
async def test_http2_client_that_leaves_cancels_the_application(stream: bool) -> None:
    app = Watcher(stream)
    async with serving(app) as server:

        async def asks(c: httpx.AsyncClient) -> None:
            async with c.stream("GET", "/") as reply:
                async for _ in reply.aiter_raw():
                    pass

        async with h2_client(server.port) as c, trio.open_nursery() as nursery:
            nursery.start_soon(asks, c)
            await eventually(lambda: app.began)
            nursery.cancel_scope.cancel()
        await eventually(lambda: bool(app.ends))
    assert app.ends == [(False, True)]


async def test_http2_body_over_the_limit_is_413_and_the_connection_lives() -> None:
    app = Recorder()
    async with serving(app, ServerLimits(body_bytes=1000)) as server:
        async with h2_client(server.port) as c:
            refused = await c.post("/", content=b"x" * 5000)
            after = await c.post("/", content=b"small")
    assert refused.status_code == 413
    assert refused.json()["error"]["code"] == "body_too_large"
    assert after.content == b"small"
    assert server.refusals == ["body_too_large"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reset", [False, True])
async def test_http2_client_that_leaves_with_its_window_shut_is_noticed_at_once(
    stream: bool, reset: bool
) -> None:
    ends: list[bool] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await start(send)
            await chunk(send, b"x" * 1000, more=stream)
            while stream:
                await chunk(send, b"x" * 1000)
        finally:
            ends.append(client_gone(scope))

    async with serving(app, ServerLimits(client_stall_ms=60_000)) as server:
        async with client(server.port) as c:
            connection = h2.connection.H2Connection(h2.config.H2Configuration())
            shut = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0}
            connection.local_settings = h2.settings.Settings(client=True, initial_values=shut)
            connection.initiate_connection()
            headers = [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "t")]
            connection.send_headers(1, headers, end_stream=True)
            await c.send(connection.data_to_send())
            events: list[h2.events.Event] = []
            while not any(isinstance(e, h2.events.ResponseReceived) for e in events):
                assert await c.fill()
                events += connection.receive_data(c.buffer)
                c.buffer = b""
            await trio.sleep(0.02)
            assert not ends
            if reset:
                connection.reset_stream(1)
                await c.send(connection.data_to_send())
            else:
                c.transport.socket.close()
            await eventually(lambda: bool(ends))
    assert ends == [True]


async def h2_events(c: RawClient) -> list[h2.events.Event]:
    """GET / over HTTP/2; all events up to the end of the stream, clean or not."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    connection.initiate_connection()
    headers = {":method": "GET", ":path": "/", ":scheme": "http", ":authority": "t"}
    connection.send_headers(1, list(headers.items()), end_stream=True)
    await c.send(connection.data_to_send())
    events: list[h2.events.Event] = []
    while not any(isinstance(e, h2.events.StreamEnded | h2.events.StreamReset) for e in events):
        assert await c.fill(), "the connection closed"
        events += connection.receive_data(c.buffer)
        c.buffer = b""
        await c.send(connection.data_to_send())
    return events


@pytest.mark.parametrize("error", [KeyError("x"), BrokenEnding()])
async def test_http2_broken_ending_is_a_reset_stream(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        await chunk(send, b"data: error\n\n")
        raise error

    async with serving(app) as server, client(server.port) as c:
        events = await h2_events(c)
    data = [event.data for event in events if isinstance(event, h2.events.DataReceived)]
    assert b"".join(data) == b"data: error\n\n"
    assert isinstance(events[-1], h2.events.StreamReset)
    assert len(caplog.records) == (0 if isinstance(error, BrokenEnding) else 1)


async def test_http2_failure_before_the_head_is_a_json_500(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyError("secret")

    async with serving(app) as server, h2_client(server.port) as c:
        reply = await c.get("/")
    assert reply.status_code == 500
    assert reply.json()["error"]["code"] == "internal_error"
    assert len(caplog.records) == 1


WEBSOCKET = (
    b"GET /ws HTTP/1.1\r\nhost: t\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def test_upgrades_harm_nobody() -> None:
    app = Watcher(stream=True)
    async with serving(app) as server, client(server.port) as streaming:
        await streaming.send(GET)
        await streaming.until(b"data: x\n\n")
        for extra in (b"", b"x"):
            async with client(server.port) as c:
                await c.send(WEBSOCKET + extra)
                answer = await c.reply()
                assert answer.status == 501
                assert json.loads(answer.body)["error"]["code"] == "no_websocket"
                await c.half_close()
                assert await c.ended()
        async with client(server.port) as c:  # another protocol's name is ignored
            await c.send(b"GET / HTTP/1.1\r\nhost: t\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")
            assert (await c.head()).status == 200
        streaming.buffer = b""
        await streaming.until(b"data: x\n\n")
    assert app.began == 2


async def test_an_h2c_upgrade_is_passed_over() -> None:
    """RFC 9113 took it away; a second reader of the same head is a way to smuggle."""
    app = Recorder()
    async with serving(app) as server, client(server.port) as c:
        await c.send(
            b"GET / HTTP/1.1\r\nhost: t\r\nconnection: Upgrade, HTTP2-Settings\r\n"
            b"upgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n"
        )
        assert (await c.head()).status == 200


@pytest.mark.parametrize("http2", [False, True])
async def test_tls_speaks_both_versions(certificate: Pair, http2: bool) -> None:
    app = Recorder()
    context = certificate.client()
    async with serving(app, tls=port_tls(certificate)) as server:
        async with httpx.AsyncClient(verify=context, http2=http2) as c:
            for _ in range(2):
                reply = await c.post(f"https://127.0.0.1:{server.port}/", content=b"abc")
                assert reply.content == b"abc"
    assert [s["scheme"] for s in app.scopes] == ["https"] * 2
    assert reply.http_version == ("HTTP/2" if http2 else "HTTP/1.1")


async def test_a_websocket_over_tls_is_refused_in_words(
    certificate: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    app = Recorder()
    context = certificate.client()
    async with serving(app, tls=port_tls(certificate)) as server:
        for extra, status in ((b"", b" 501 "), (b"x", b" 501 ")):
            stream = await trio.open_ssl_over_tcp_stream(
                "127.0.0.1", server.port, ssl_context=context
            )
            async with stream:
                await stream.send_all(WEBSOCKET + extra)
                assert status in await stream.receive_some()
    assert app.scopes == []
    assert server.refusals.count("no_websocket") == 2
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
