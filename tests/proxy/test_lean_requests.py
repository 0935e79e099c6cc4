"""What a lean connection gives the application, and how it answers."""

import pytest
import trio

from tests.proxy.serving import (
    GET,
    QUICK,
    Endless,
    Recorder,
    chunk,
    client,
    echo,
    say,
    serving,
    start,
)
from trioroute.proxy.serving.asgi import Receive, Scope, Send

pytestmark = pytest.mark.usefixtures("either_way")


async def test_the_scope_is_what_asgi_asks_for(either_way: str) -> None:
    app = Recorder()
    async with serving(app) as server, client(server.port) as c:
        await c.send(
            b"POST /a%20b/%C3%A9?x=1&y=%20 HTTP/1.1\r\nHost: t\r\nX-Two: 1\r\nx-two:  2\t\r\n"
            b"X-Empty:\r\ncontent-length: 2\r\n\r\nhi"
        )
        assert (await c.reply()).body == b"hi"
        local = c.transport.socket.getsockname()
    scope = app.scopes[0]
    assert scope["type"] == "http"
    assert scope["http_version"] == "1.1"
    assert scope["method"] == "POST"
    assert scope["path"] == "/a b/é"
    assert scope["raw_path"] == b"/a%20b/%C3%A9"
    assert scope["query_string"] == b"x=1&y=%20"
    assert scope["scheme"] == ("http" if either_way == "plain" else "https")
    assert scope["root_path"] == ""
    assert scope["client"] == local
    assert scope["server"] == ("127.0.0.1", server.port)
    assert scope["headers"] == [
        (b"host", b"t"),
        (b"x-two", b"1"),
        (b"x-two", b"2"),
        (b"x-empty", b""),
        (b"content-length", b"2"),
    ]
    assert app.messages == [{"type": "http.request", "body": b"hi", "more_body": False}]


async def test_an_absolute_target_loses_its_authority() -> None:
    app = Recorder()
    async with serving(app) as server, client(server.port) as c:
        await c.send(b"GET http://other:1/p?q HTTP/1.1\r\nhost: t\r\n\r\n")
        await c.reply()
        await c.send(b"OPTIONS * HTTP/1.1\r\nhost: t\r\n\r\n")
        await c.reply()
    assert [s["raw_path"] for s in app.scopes] == [b"/p", b"*"]
    assert app.scopes[0]["query_string"] == b"q"
    assert app.scopes[0]["headers"] == [(b"host", b"other:1")]


@pytest.mark.parametrize(
    "host", ["", "gpu1", "gpu_1.example:8080", "[::1]:80", "10.0.0.1", "g%c3%bc:", "g:65535"]
)
async def test_a_host_and_a_port_are_taken(host: str) -> None:
    app = Recorder()
    async with serving(app) as server, client(server.port) as c:
        await c.send(b"GET /p HTTP/1.1\r\nhost: %b\r\n\r\n" % host.encode())
        assert (await c.reply()).status == 200
    assert app.scopes[0]["headers"] == [(b"host", host.encode())]


@pytest.mark.parametrize(
    "head",
    [
        b"GET /p HTTP/1.1\r\nhost: %b\r\n\r\n" % bad
        for bad in (
            b"a b@c/",
            b"a/b",
            b"u@h",
            b"[::1",
            b"h:x",
            b"%zz",
            b"h%4",
            b"h:65536",
            b"h:123456",
        )
    ]
    + [b"GET http://%b/p HTTP/1.1\r\nhost: t\r\n\r\n" % bad for bad in (b"u@h", b"", b":80")],
)
async def test_what_is_no_host_is_refused(head: bytes) -> None:
    app = Recorder()
    async with serving(app) as server, client(server.port) as c:
        await c.send(head)
        assert (await c.reply()).status == 400
    assert app.scopes == []


async def test_a_body_arrives_whole_however_it_is_cut() -> None:
    body = bytes(range(256)) * 3000
    async with serving(echo) as server, client(server.port) as c:
        await c.send(b"POST / HTTP/1.1\r\nhost: t\r\ncontent-length: %d\r\n\r\n" % len(body))
        for at in range(0, len(body), 100_000):
            await c.send(body[at : at + 100_000])
            await trio.sleep(0.001)
        assert (await c.reply()).body == body
        await c.send(GET)
        assert (await c.reply()).body == b""


async def test_a_chunked_body_byte_by_byte_then_the_next_request() -> None:
    request = (
        b"POST / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: Chunked\r\n\r\n"
        b'5;name="x"\r\nhello\r\n6\r\n world\r\n0\r\nx-trailer: t\r\n\r\n'
        b"POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 3\r\n\r\nend"
    )
    async with serving(echo) as server, client(server.port) as c:
        for at in range(len(request)):
            await c.send(request[at : at + 1])
        assert (await c.reply()).body == b"hello world"
        assert (await c.reply()).body == b"end"
        await c.send(request)  # and in one piece
        assert (await c.reply()).body == b"hello world"
        assert (await c.reply()).body == b"end"


async def test_expect_100_continue_is_answered_before_the_body() -> None:
    async with serving(echo) as server, client(server.port) as c:
        head = b"POST / HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n"
        await c.send(head)
        assert await c.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await c.send(b"abc")
        assert (await c.reply()).body == b"abc"
        await c.send(head + b"abc")  # the body did not wait: no 100 then
        assert (await c.reply()).body == b"abc"


async def test_head_keeps_the_length_and_sends_no_body() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await say(send, b"x" * 500)

    async with serving(app) as server, client(server.port) as c:
        await c.send(b"HEAD / HTTP/1.1\r\nhost: t\r\n\r\n" + GET)
        reply = await c.reply(bodiless=True)
        assert reply.headers["content-length"] == "500"
        assert (await c.reply()).body == b"x" * 500


@pytest.mark.parametrize("status", [204, 304])
async def test_statuses_without_a_body_have_none(status: int) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send, status)
        await chunk(send, b"must not leave", more=False)

    async with serving(app) as server, client(server.port) as c:
        await c.send(GET + GET)
        for _ in range(2):
            reply = await c.reply()
            assert reply.status == status
            assert "transfer-encoding" not in reply.headers
            assert "content-length" not in reply.headers


async def test_a_stream_is_chunked_and_each_message_leaves_at_once() -> None:
    go = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"Transfer-Encoding", b"chunked"), (b"content-type", b"x")],
            }
        )
        await chunk(send, b"one")
        await go.wait()
        await chunk(send, b"two", more=False)

    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        reply = await c.head()
        assert reply.headers["transfer-encoding"] == "chunked"
        assert await c.until(b"\r\none\r\n") == b"3\r\none\r\n"
        go.set()
        assert await c.until(b"0\r\n\r\n") == b"3\r\ntwo\r\n0\r\n\r\n"


async def test_an_empty_message_sends_the_head_alone() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send, 201)
        await chunk(send, b"")
        await trio.sleep_forever()

    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        assert (await c.head()).status == 201


async def test_a_whole_body_without_length_gets_one() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        await chunk(send, b"abc", more=False)

    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        reply = await c.reply()
        assert (reply.headers["content-length"], reply.body) == ("3", b"abc")


async def test_http_1_0_streams_end_with_the_connection() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        await chunk(send, b"one")
        await chunk(send, b"two", more=False)

    async with serving(app) as server, client(server.port) as c:
        await c.send(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
        reply = await c.reply()
        assert reply.body == b"onetwo"
        assert reply.headers["connection"] == "close"
        assert "transfer-encoding" not in reply.headers


async def test_http_1_0_keeps_alive_only_when_asked_to() -> None:
    async with serving(echo) as server, client(server.port) as c:
        await c.send(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
        assert (await c.reply()).headers["connection"] == "keep-alive"
        await c.send(b"GET / HTTP/1.0\r\n\r\n")
        assert (await c.reply()).headers["connection"] == "close"
        assert await c.ended()


async def test_connection_close_is_kept_by_both_sides() -> None:
    async def closing(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"connection", b"close"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await chunk(send, b"", more=False)

    for app, extra in ((echo, b"connection: close\r\n"), (closing, b"")):
        async with serving(app) as server, client(server.port) as c:
            await c.send(b"GET / HTTP/1.1\r\nhost: t\r\n" + extra + b"\r\n")
            assert (await c.reply()).headers["connection"] == "close"
            assert await c.ended()


async def test_pipelined_requests_run_one_after_the_other() -> None:
    running = 0
    most = 0
    paths: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        paths.append(scope["path"])
        await trio.sleep(0.005)
        running -= 1
        await say(send, scope["path"].encode())

    async with serving(app) as server, client(server.port) as c:
        await c.send(b"".join(b"GET /%d HTTP/1.1\r\nhost: t\r\n\r\n" % n for n in range(20)))
        for n in range(20):
            assert (await c.reply()).body == b"/%d" % n
    assert most == 1
    assert paths == [f"/{n}" for n in range(20)]


async def test_a_pipelining_client_is_held_back_by_tcp() -> None:
    hold = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await hold.wait()
        await say(send, b"")

    async with serving(app) as server, client(server.port) as c:
        sent = 0
        with trio.move_on_after(0.5):
            while sent < 64 * 1024 * 1024:
                await c.send(GET * 2000)
                sent += len(GET) * 2000
        assert sent < 16 * 1024 * 1024  # socket buffers, not the server's memory
        hold.set()


async def test_a_slow_client_makes_send_wait() -> None:
    app = Endless()
    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        await trio.sleep(0.3)
        first = app.taken
        await trio.sleep(0.2)
        assert app.taken == first  # it stands
        assert first < 16 * 1024 * 1024
        for _ in range(200):
            await c.fill()
        assert app.taken > first  # and goes on when the client reads


async def test_empty_lines_before_a_request_are_skipped() -> None:
    async with serving(echo) as server, client(server.port) as c:
        await c.send(b"\r\n\r\n" + GET)
        assert (await c.reply()).status == 200


async def test_the_idle_time_counts_from_the_end_of_the_last_response() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await trio.sleep(0.5)  # longer than the idle time
        await say(send, b"")

    limits = type(QUICK)(keep_alive_s=0.3)
    async with serving(app, limits) as server, client(server.port) as c:
        for _ in range(2):
            await c.send(GET)
            assert (await c.reply()).status == 200
            ended_at = trio.current_time()
        assert await c.ended()
        assert trio.current_time() - ended_at >= 0.29


async def test_a_date_is_sent_once() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"Date", b"yesterday")] if scope["path"] == "/own" else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await chunk(send, b"", more=False)

    async with serving(app) as server, client(server.port) as c:
        await c.send(GET + b"GET /own HTTP/1.1\r\nhost: t\r\n\r\n")
        assert (await c.reply()).headers["date"].endswith("GMT")
        assert (await c.reply()).headers["date"] == "yesterday"
