"""What TLS adds to a lean connection: the handshake, what is no TLS, and an end that is told."""

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio

from tests.certificates import Pair
from tests.proxy.serving import (
    GET,
    RawClient,
    Recorder,
    Serving,
    chunk,
    echo,
    eventually,
    port_tls,
    serving,
    speaking,
    start,
)
from trioroute.proxy.serving import seam
from trioroute.proxy.serving.asgi import ASGIApp, BrokenEnding, Receive, Scope, Send
from trioroute.proxy.serving.records import BARREN_RECORDS, RECORDS_A_READ, Records
from trioroute.proxy.serving.secure import SEALED_BYTES

GET_1_0 = b"GET / HTTP/1.0\r\n\r\n"
RECORD = b"\x17\x03\x03\x00\x01"


@asynccontextmanager
async def secure(app: ASGIApp, pair: Pair) -> AsyncIterator[tuple[Serving, RawClient]]:
    """A client whose library takes an end without TLS's own for a cut."""
    async with serving(app, tls=port_tls(pair)) as server:
        transport = await trio.open_tcp_stream("127.0.0.1", server.port)
        context = pair.client()
        strict = trio.SSLStream(transport, context, server_hostname="127.0.0.1")
        yield server, RawClient(strict)
        transport.socket.close()


async def test_plain_http_on_the_tls_port_is_told_so(
    certificate: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    app = Recorder()
    async with serving(app, tls=port_tls(certificate)) as server:
        for sent in (GET, b"POST /v1 HTTP/1.1\r\nhost: t\r\ncontent-length: 99999\r\n\r\nab"):
            async with speaking(server.port, None) as c:
                await c.send(sent)
                reply = await c.reply()
                assert reply.status == 400
                error = json.loads(reply.body)["error"]
                assert error["code"] == "invalid_request"
                assert "https://" in error["message"]
                assert await c.ended()
        async with speaking(server.port, certificate.client()) as c:
            await c.send(GET)
            assert (await c.reply()).status == 200
    assert server.refusals == ["invalid_request"] * 2
    assert len(app.scopes) == 1
    (line,) = [record.getMessage() for record in caplog.records]
    assert "https://" in line
    assert "127.0.0.1" not in line, "whose it is, is not written down"
    assert line.endswith(f"(port {server.port})")


async def test_tls_on_the_plain_port_is_closed_with_one_line_in_the_process_log(
    certificate: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(echo) as server:
        for _ in range(3):
            with pytest.raises(trio.BrokenResourceError) as failed:
                async with speaking(server.port, certificate.client()):
                    pass
            assert "WRONG_VERSION_NUMBER" in str(failed.value.__cause__)
    assert server.refusals == ["invalid_request"] * 3
    (line,) = [record.getMessage() for record in caplog.records]
    assert "TLS handshake" in line


@pytest.mark.parametrize(
    "sent", [bytes(100), b"\xff" * 100_000, b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\x16" * 300]
)
async def test_noise_on_the_tls_port_is_closed(
    sent: bytes, certificate: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(echo, tls=port_tls(certificate)) as server:
        async with speaking(server.port, None) as c:
            with suppress(trio.BrokenResourceError):
                await c.send(sent)
                await c.half_close()
                assert not (await c.rest()).startswith(b"HTTP")
        async with speaking(server.port, certificate.client()) as c:
            await c.send(GET)
            assert (await c.reply()).status == 200
    assert not caplog.records


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
async def test_a_handshake_that_does_not_end_is_closed(
    begun: bytes, certificate: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "HANDSHAKE_S", 0.2)
    async with serving(echo, tls=port_tls(certificate)) as server:
        async with speaking(server.port, None) as c:
            await c.send(begun)
            assert await c.ended()


async def test_only_a_whole_body_ends_with_the_end_of_tls(certificate: Pair) -> None:
    """One that only the end of the connection ends could not be told from a cut one otherwise."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        await chunk(send, b"abc")
        if scope["path"] == "/broken":
            raise BrokenEnding
        await chunk(send, b"", more=False)

    async with secure(app, certificate) as (_, c):
        await c.send(GET_1_0)
        assert (await c.rest()).endswith(b"abc")
    async with secure(app, certificate) as (_, c):
        await c.send(GET_1_0.replace(b"/ ", b"/broken ", 1))
        await c.until(b"abc")
        with pytest.raises(trio.BrokenResourceError):
            await c.fill()


async def test_large_bodies_go_both_ways_whole(certificate: Pair) -> None:
    body = bytes(range(256)) * (16 * SEALED_BYTES // 256) + b"end"
    async with secure(echo, certificate) as (_, c):
        for _ in range(2):
            head = b"POST / HTTP/1.1\r\nhost: t\r\ncontent-length: %d\r\n\r\n" % len(body)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(c.send, head + body)
                reply = await c.reply()
            assert reply.body == body


async def test_records_of_one_byte_make_the_same_requests(certificate: Pair) -> None:
    request = b"POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 3\r\n\r\nabc" + GET
    async with secure(echo, certificate) as (_, c):
        for at in range(len(request)):
            await c.send(request[at : at + 1])
        assert (await c.reply()).body == b"abc"
        assert (await c.reply()).body == b""


async def test_a_slow_reader_of_a_stream_gets_every_byte(certificate: Pair) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        outlet = scope["extensions"]["trioroute.outlet"]
        await chunk(send, b"first")
        for number in range(4000):
            rest = outlet.pass_on(b"%07d" % number * 150)
            if rest:
                await outlet.flush(rest)
        await chunk(send, b"", more=False)

    async with secure(app, certificate) as (_, c):
        await c.send(GET)
        await trio.sleep(0.3)
        reply = await c.reply()
    assert reply.body == b"first" + b"".join(b"%07d" % number * 150 for number in range(4000))


class Openssl:
    """Stands for OpenSSL: a record is one byte, and what it says comes out; "-" says nothing."""

    def __init__(self, incoming: ssl.MemoryBIO) -> None:
        self.incoming = incoming
        self.reads = 0

    def pending(self) -> int:
        return 0

    def read(self, most: int) -> bytes:
        self.reads += 1
        record = self.incoming.read()
        if record[5:] in (b"", b"-"):
            raise ssl.SSLWantReadError
        return record[5:]


class Context:
    made: Openssl

    def wrap_bio(self, incoming: ssl.MemoryBIO, *_: Any, **__: Any) -> Openssl:
        self.made = Openssl(incoming)
        return self.made


def opened(what: bytes) -> tuple[Records, Openssl]:
    context: Any = Context()
    records = Records(context)
    records.feed(b"".join(RECORD + bytes((one,)) for one in what))
    return records, context.made


def test_records_that_bring_nothing_are_few_or_the_last() -> None:
    records, openssl = opened(b"-" * 1000)
    assert records.opened(100) == b""
    assert records.ended
    assert openssl.reads == BARREN_RECORDS
    records, openssl = opened(b"-" * (BARREN_RECORDS - 1) + b"a")
    assert records.opened(100) == b"a"
    assert not records.ended


def test_a_read_takes_few_records_and_the_next_goes_on() -> None:
    records, openssl = opened(b"a-" * 100 + b"b" * 100)
    got: list[bytes] = []
    while more := records.opened(1000):
        got.append(more)
        assert openssl.reads <= RECORDS_A_READ + BARREN_RECORDS
        openssl.reads = 0
    assert b"".join(got) == b"a" * 100 + b"b" * 100
    assert len(got[0]) <= BARREN_RECORDS + 1
    assert len(got[-2]) == RECORDS_A_READ
    assert not records.ended


async def test_a_client_that_leaves_in_its_handshake_leaves_nothing(certificate: Pair) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    async with serving(echo, tls=port_tls(certificate)) as server:
        async with speaking(server.port, certificate.client()) as c:
            await c.send(GET)
            await c.reply()
        idle = trio.lowlevel.current_statistics().tasks_living
        for sent in (b"", b"\x16\x03\x01", b"\x16"):
            async with speaking(server.port, None) as c:
                await c.send(sent)
                c.reset()
        await eventually(lambda: trio.lowlevel.current_statistics().tasks_living <= idle)
    await eventually(lambda: trio.lowlevel.current_statistics().tasks_living == before)
