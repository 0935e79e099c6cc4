"""While the server itself stands still, no limit runs for its clients."""

import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import attrs
import pytest
import trio

from tests.certificates import Pair
from tests.proxy import serving as spoken_by
from tests.proxy.asker import asking
from tests.proxy.replies import LAST
from tests.proxy.serving import GET, RawClient, chunk, client, echo, port_tls, serving, start
from trioroute.proxy.serving import seam
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


async def test_one_over_http2_is_not_late(certificate: Pair) -> None:
    pair = certificate if spoken_by.spoken is not None else None
    async with serving(echo, LIMITS) as server, asking(server, pair=pair) as asker:
        stream = await asker.ask("/", b"bo", more=True)
        for piece in (b"d", b"y"):
            await trio.sleep(0.05)
            stand_still()
            await asker.go_on(stream, piece, more=piece != b"y")
        await asker.read_whole(stream)
        assert asker.bodies[stream] == b"body"
    assert server.refusals == []


async def test_one_over_http2_that_comes_too_slowly_is_late(certificate: Pair) -> None:
    pair = certificate if spoken_by.spoken is not None else None
    async with serving(echo, LIMITS) as server, asking(server, pair=pair) as asker:
        stream = await asker.ask("/", b"bo", more=True)
        await asker.read_whole(stream)
        assert asker.heads[stream][":status"] == "408"
    assert server.refusals == ["request_timeout"]


async def held_up() -> None:
    """And what was due meanwhile has happened."""
    await trio.sleep(0.05)
    stand_still()
    await trio.sleep(0.05)


async def in_silence(to: trio.SocketStream, tls: ssl.SSLObject, said: ssl.MemoryBIO) -> None:
    await held_up()
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    await to.send_all(said.read())


async def in_the_hello(to: trio.SocketStream, tls: ssl.SSLObject, said: ssl.MemoryBIO) -> None:
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = said.read()
    for piece in (hello[:9], hello[9:20], hello[20:]):
        await to.send_all(piece)
        await held_up()


@pytest.mark.parametrize("begins", [in_silence, in_the_hello])
async def test_a_handshake_is_not_late(
    begins: Callable[[trio.SocketStream, ssl.SSLObject, ssl.MemoryBIO], Awaitable[None]],
    certificate: Pair,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seam, "HANDSHAKE_S", 0.6)
    heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = certificate.client().wrap_bio(heard, said, server_hostname="127.0.0.1")
    async with serving(echo, LIMITS, tls=port_tls(certificate)) as server:
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as to:
            await begins(to, tls, said)
            with trio.fail_after(10):
                while tls.version() is None or tls.cipher() is None:
                    data = await to.receive_some()
                    assert data, "it was closed"
                    heard.write(data)
                    with suppress(ssl.SSLWantReadError):
                        tls.do_handshake()


async def test_one_that_comes_too_slowly_is_late_all_the_same() -> None:
    async with serving(echo, LIMITS) as server, client(server.port) as c:
        await c.send(POST + b"content-length: 4\r\n\r\nb")
        await trio.sleep(0.05)
        stand_still()
        assert (await c.reply()).status == 408


async def test_an_idle_connection_grew_old() -> None:
    limits = attrs.evolve(LIMITS, keep_alive_s=1.2)
    async with serving(echo, limits) as server, client(server.port) as c:
        await c.send(GET)
        await c.reply()
        await trio.sleep(0.05)
        stand_still()
        with trio.fail_after(1.1):
            assert await c.ended()
