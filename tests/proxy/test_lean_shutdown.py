"""Shutdown, stalled clients, the fallback to unchanged hypercorn, and everything at once."""

import random

import hypercorn.trio.run
import pytest
import trio

from tests.certificates import Pair
from tests.proxy.serving import (
    GET,
    QUICK,
    Recorder,
    chunk,
    client,
    echo,
    eventually,
    open_files,
    port_tls,
    say,
    serving,
    start,
)
from tests.proxy.test_hangup import Watcher
from trioroute.proxy.serving import hub
from trioroute.proxy.serving.asgi import Receive, Scope, Send
from trioroute.proxy.serving.hub import Hub
from trioroute.proxy.serving.limits import ServerLimits
from trioroute.proxy.serving.seam import lean_worker

pytestmark = pytest.mark.usefixtures("either_way")


async def test_idle_connections_close_and_running_requests_finish() -> None:
    go = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            await start(send)
            await chunk(send, b"a")
            await go.wait()
            await chunk(send, b"b", more=False)
        else:
            await say(send, b"")

    patient = ServerLimits(graceful_timeout_s=100)
    async with (
        serving(app, patient) as server,
        client(server.port) as idle,
        client(server.port) as busy,
    ):
        await idle.send(GET)
        await idle.reply()
        await busy.send(b"GET /slow HTTP/1.1\r\nhost: t\r\n\r\n")
        await busy.head()
        server.shutdown.set()
        assert await idle.ended()
        with pytest.raises(OSError):
            await trio.open_tcp_stream("127.0.0.1", server.port)
        assert not server.stopped.is_set()
        go.set()
        assert await busy.rest() == b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
        with trio.fail_after(40):
            await server.stopped.wait()


async def test_a_kept_connection_is_told_before_it_is_closed() -> None:
    """Closing it at the signal would lose the request of whoever uses it just then."""
    drain = trio.Event()
    async with serving(echo, drain=drain) as server, client(server.port) as kept:
        await kept.send(GET)
        assert "connection" not in (await kept.reply()).headers
        drain.set()
        await trio.sleep(0.1)
        await kept.send(GET)
        assert (await kept.reply()).headers["connection"] == "close"
        assert await kept.ended()
        async with client(server.port) as new:
            await new.send(GET)
            assert (await new.reply()).headers["connection"] == "close"
            assert await new.ended()


async def test_a_request_that_is_on_its_way_at_the_end_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "FIRST_REQUEST_S", 1.0)
    patient = ServerLimits(graceful_timeout_s=100)
    async with (
        serving(echo, patient) as server,
        client(server.port) as new,
        client(server.port) as mute,
    ):
        await trio.sleep(0.05)  # both are accepted, and have sent nothing
        begun = trio.current_time()
        server.shutdown.set()
        await trio.sleep(0.05)
        await new.send(GET)
        assert (await new.reply()).headers["connection"] == "close"
        assert await mute.ended()
        with trio.fail_after(40):
            await server.stopped.wait()
        assert trio.current_time() - begun >= 1


async def test_responses_begun_while_draining_say_close() -> None:
    go = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await go.wait()
        await say(send, b"x")

    async with serving(app) as server, client(server.port) as c:
        await c.send(GET)
        await trio.sleep(0.05)
        server.shutdown.set()
        await trio.sleep(0.02)
        go.set()
        assert (await c.reply()).headers["connection"] == "close"
        assert await c.ended()


async def test_after_the_grace_time_waiting_clients_see_the_end() -> None:
    app = Watcher(stream=False)
    async with serving(app, ServerLimits(graceful_timeout_s=0.2)) as server:
        async with client(server.port) as a, client(server.port) as b:
            for c in (a, b):
                await c.send(GET)
            await eventually(lambda: app.began == 2)
            server.shutdown.set()
            with trio.fail_after(20):
                assert await a.ended()
                assert await b.ended()
                await server.stopped.wait()
    assert app.ends == [(False, False)] * 2


async def flood(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send)
    while True:
        await chunk(send, b"x" * 65536)


async def test_a_stalled_client_does_not_hold_up_a_shutdown() -> None:
    async with serving(flood, ServerLimits(graceful_timeout_s=0.2)) as server:
        async with client(server.port) as c:
            await c.send(GET)
            await trio.sleep(0.2)
            server.shutdown.set()
            with trio.fail_after(20):
                await server.stopped.wait()


async def test_a_stalled_tls_client_does_not_hold_up_a_shutdown(
    certificate: Pair,
) -> None:
    """Hypercorn shields its sends from cancellation; TCP_USER_TIMEOUT ends them."""
    limits = ServerLimits(graceful_timeout_s=0.2, client_stall_ms=1000)
    context = certificate.client()
    async with serving(flood, limits, port_tls(certificate)) as server:
        stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", server.port, ssl_context=context)
        await stream.send_all(GET)
        await trio.sleep(0.2)
        server.shutdown.set()
        with trio.fail_after(10):
            await server.stopped.wait()
        stream.transport_stream.socket.close()


async def test_a_stalled_client_is_given_up() -> None:
    app = Watcher(stream=False)

    async def flooding(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await flood(scope, receive, send)
        finally:
            app.ends.append((False, scope["extensions"]["trioroute.client"].gone))

    async with serving(flooding, ServerLimits(client_stall_ms=300)) as server:
        async with client(server.port) as c:
            await c.send(GET)
            await trio.sleep(0.1)
            await eventually(lambda: bool(app.ends))
    assert app.ends == [(False, True)]


async def test_a_slow_but_moving_client_is_kept() -> None:
    async with serving(flood, ServerLimits(client_stall_ms=500)) as server:
        async with client(server.port) as c:
            await c.send(GET)
            for _ in range(40):  # three times the stall limit in all
                await c.fill()
                await c.fill()
                await trio.sleep(0.04)


async def test_a_moved_seam_falls_back_to_hypercorn_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hypercorn.trio.run, "worker_serve", moved_worker_serve)
    app = Recorder()
    async with serving(app) as server, client(server.port) as c:
        await c.send(b"POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 2\r\n\r\nhi")
        assert (await c.reply()).body == b"hi"
        server.shutdown.set()
        with trio.fail_after(5):
            await server.stopped.wait()
    assert any("pyproject" in record.message for record in caplog.records)
    assert app.messages[0]["more_body"] is False  # still guarded


async def moved_worker_serve(app: object, config: object, *, sockets: object) -> None:
    raise AssertionError("a worker that does not look up TCPServer must not be used")


@pytest.mark.parametrize("name", ["TCPServer", "worker_serve"])
async def test_the_seam_is_checked_before_it_is_used(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub(QUICK, None)
    try:
        assert lean_worker(hub, echo) is not None
        monkeypatch.delattr(hypercorn.trio.run, name)
        assert lean_worker(hub, echo) is None
    finally:
        hub.watch.close()


async def test_a_connection_class_with_other_arguments_is_a_moved_seam(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class TCPServer:
        def __init__(self, app: object, stream: object) -> None: ...

    monkeypatch.setattr(hypercorn.trio.run, "TCPServer", TCPServer)
    hub = Hub(QUICK, None)
    try:
        assert lean_worker(hub, echo) is None
    finally:
        hub.watch.close()


async def test_other_users_of_hypercorn_see_no_change() -> None:
    before = dict(vars(hypercorn.trio.run))
    async with serving(echo):
        assert vars(hypercorn.trio.run) == before


async def test_two_hundred_mixed_connections_leave_nothing_behind() -> None:
    running = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal running
        running += 1
        try:
            body = (await receive())["body"]
            if scope["path"] == "/hang":
                await trio.sleep(60)
            await start(send)
            for at in range(0, len(body), 997):
                await chunk(send, body[at : at + 997])
                if scope["path"] == "/slow":
                    await trio.sleep(0.001)
            await chunk(send, b"", more=False)
        finally:
            running -= 1

    good = 0
    dice = random.Random(7)

    async def visit(port: int, kind: int, size: int) -> None:
        nonlocal good
        async with client(port) as c:
            body = bytes(size)
            path = (b"/", b"/slow", b"/hang", b"/")[kind]
            head = b"POST %b HTTP/1.1\r\nhost: t\r\ncontent-length: %d\r\n\r\n" % (path, size)
            if kind == 3:
                await c.send(head + body[: size // 2])  # leaves within the body
            elif kind == 2:
                await c.send(head + body)
                await trio.sleep(0.05)
                c.reset()
            else:
                for _ in range(3):
                    await c.send(head + body)
                    reply = await c.reply()
                    assert (reply.status, len(reply.body)) == (200, size)
                    good += 1

    async with serving(app, QUICK) as server:
        files = open_files()
        tasks = trio.lowlevel.current_statistics().tasks_living
        async with trio.open_nursery() as nursery:
            for n in range(200):
                nursery.start_soon(visit, server.port, n % 4, dice.randrange(1, 20_000))
        await eventually(lambda: running == 0)
        await eventually(lambda: open_files() == files)
        await eventually(lambda: trio.lowlevel.current_statistics().tasks_living == tasks)
    assert good == 300
    assert server.refusals == []
