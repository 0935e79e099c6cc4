"""Responses of a replica, read to their true end and not a byte further."""

import gzip
from collections.abc import AsyncIterable

import httpx
import pytest
import trio

from tests.proxy.scripted import OK, Peer, always, answers, get, replica, transport_to
from tests.proxy.serving import eventually
from trioroute.proxy.upstream.error import UpstreamError
from trioroute.proxy.upstream.message import Outgoing, UpstreamStream
from trioroute.proxy.upstream.response_parser import FEW_BYTES

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


async def test_the_request_leaves_as_it_was_given() -> None:
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.send(OK)

    async with replica(script) as r, transport_to(r.url) as t:
        request = httpx.Request(
            "POST",
            "http://replica:1/ignored",
            headers=[("Host", "replica"), ("X-Two", "1"), ("x-two", "2")],
            content=b"body",
            extensions={"target": b"/v1/%41?q=%20"},
        )
        response = await t.handle_async_request(request)
        assert response.status_code == 200
        assert await response.aread() == b"ok"
    head, body = seen[0].split(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] == b"POST /v1/%41?q=%20 HTTP/1.1"
    for line in (b"Host: replica", b"X-Two: 1", b"x-two: 2"):
        assert head.count(line) == 1
    assert body == b"body"


@pytest.mark.parametrize(
    ("response", "body", "kept"),
    [
        (OK, b"ok", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", True),
        (CHUNKED + b"2;x=y\r\nab\r\n1\r\nc\r\n0\r\nx-trailer: 1\r\n\r\n", b"abc", True),
        (CHUNKED + b"0\r\n\r\n", b"", True),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil close", b"until close", False),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil close", b"until close", False),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nuntil close", b"until close", False),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", b"ok", False),
        (b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok", b"ok", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", b"", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 P\r\nx: y\r\n\r\n" + OK, b"ok", True),
        (OK + b"excess", b"ok", False),
        (OK + OK, b"ok", False),
        (b"HTTP/1.1 599 \r\ncontent-length: 1\r\n\r\nx", b"x", True),
    ],
)
@pytest.mark.parametrize("piece", [1, 1 << 20])
async def test_every_framing_ends_where_it_ends(
    response: bytes, body: bytes, kept: bool, piece: int
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        for at in range(0, len(response), piece):
            await peer.send(response[at : at + piece])
            if piece == 1:
                await trio.lowlevel.checkpoint()
        if kept:
            await peer.wait_gone()

    async with replica(script) as r, transport_to(r.url) as t:
        got = await t.handle_async_request(httpx.Request("GET", r.url))
        assert isinstance(got.stream, UpstreamStream)
        assert b"".join([part async for part in got.stream]) == body
        assert got.stream.complete
        assert "x" not in got.headers
        if kept:
            assert t.idle == 1
        else:  # excess that came later is found when the connection is to be used again
            await eventually(lambda: r.peers[0].gone.is_set())
            await trio.sleep(0.02)
            again = await t.handle_async_request(httpx.Request("GET", r.url))
            await again.aclose()
            assert (len(r.peers), t.stale_retries) == (2, 0)


async def test_head_answers_have_no_body_and_keep_the_connection() -> None:
    async with replica(always(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n")) as r:
        async with transport_to(r.url) as t:
            for _ in range(2):
                assert await get(t, "HEAD") == b""
            assert len(r.peers) == 1


async def test_a_body_under_head_spoils_the_connection() -> None:
    async with replica(always(OK)) as r, transport_to(r.url) as t:
        assert await get(t, "HEAD") == b""
        assert await get(t) == b"ok"
        assert len(r.peers) == 2


async def test_each_step_is_what_one_receive_brought() -> None:
    taken = [trio.Event(), trio.Event(), trio.Event()]

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        await peer.send(b"3\r\none\r\n3\r\ntwo\r\n")
        await taken[0].wait()
        await peer.send(b"5\r\nth")
        await taken[1].wait()
        await peer.send(b"ree\r\n0\r\n\r\n")
        await peer.wait_gone()

    async with replica(script) as r, transport_to(r.url) as t:
        response = await t.handle_async_request(httpx.Request("GET", r.url))
        assert isinstance(response.stream, AsyncIterable)
        parts: list[bytes] = []
        async for part in response.stream:
            taken[len(parts)].set()
            parts.append(part)
        assert parts == [b"onetwo", b"th", b"ree"]


async def test_bodies_are_not_unpacked() -> None:
    packed = gzip.compress(b"x" * 1000)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
    async with replica(always(head + packed)) as r, transport_to(r.url) as t:
        response = await t.handle_async_request(httpx.Request("GET", r.url))
        assert isinstance(response.stream, AsyncIterable)
        assert b"".join([part async for part in response.stream]) == packed
        async with httpx.AsyncClient(transport=t) as c:  # and httpx can, when it is asked
            assert (await c.get(r.url)).content == b"x" * 1000


CUTS = {
    "length": b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
    "no last chunk": CHUNKED + b"3\r\nabc\r\n",
    "within a chunk": CHUNKED + b"9\r\nabc",
    "within trailers": CHUNKED + b"3\r\nabc\r\n0\r\nx: y\r\n",
}


@pytest.mark.parametrize("how", ["fin", "reset"])
@pytest.mark.parametrize("cut", CUTS)
async def test_a_cut_body_never_ends_cleanly(cut: str, how: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(CUTS[cut])
        await trio.sleep(0.05)
        if how == "reset":
            peer.reset()

    async with replica(script) as r, transport_to(r.url) as t:
        response = await t.handle_async_request(httpx.Request("GET", r.url))
        stream = response.stream
        assert isinstance(stream, UpstreamStream)
        assert await anext(stream) == b"abc"
        with pytest.raises(UpstreamError) as caught:
            await anext(stream)
        assert caught.value.cause == how
        assert caught.value.sent
        assert not stream.complete
        assert t.idle == 0


@pytest.mark.parametrize(
    ("response", "cause"),
    [
        (b"", "fin"),
        (b"HTTP/1.1 200 OK\r\ncontent-le", "fin"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "fin"),
        (b"SSH-2.0-OpenSSH_9\r\n", "protocol"),
        (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"a" * 70_000 + b"\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 300 + b"\r\n", "protocol"),
        (b"HTTP/1.1 102 P\r\n\r\n" * 20 + OK, "protocol"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", "protocol"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\nab",
            "protocol",
        ),
    ],
)
async def test_what_is_no_response_is_an_error(response: bytes, cause: str) -> None:
    async with replica(answers(response)) as r, transport_to(r.url) as t:
        with pytest.raises(UpstreamError) as caught:
            await get(t)
        assert caught.value.cause == cause
        assert caught.value.sent
        assert not caught.value.local
        assert len(r.peers) == 1  # a fresh connection is not retried


@pytest.mark.parametrize("status", [b"000", b"001", b"099"])
async def test_a_status_below_100_is_an_error_at_once(status: bytes) -> None:
    """It was waited on as if it were informational, up to the limit for the first byte."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 %b x\r\ncontent-length: 0\r\n\r\n" % status)
        await peer.wait_gone()

    async with replica(script) as r, transport_to(r.url) as t:
        with trio.fail_after(10), pytest.raises(UpstreamError, match=status.decode()) as caught:
            await get(t)
        assert caught.value.cause == "protocol"
        assert caught.value.sent


@pytest.mark.parametrize(
    "framing", [b"zz\r\n", b"3\r\nabcd\r\n", b"1;" + b"x" * 300_000 + b"\r\na\r\n0\r\n\r\n"]
)
async def test_broken_or_endless_chunk_framing_is_an_error(framing: bytes) -> None:
    async with replica(answers(CHUNKED + framing)) as r, transport_to(r.url) as t:
        with pytest.raises(UpstreamError) as caught:
            await get(t)
        assert caught.value.cause == "protocol"


async def test_an_answer_is_found_by_lower_case_names_and_keeps_order_and_doubles() -> None:
    told = b"HTTP/1.1 200 OK\r\nX-B: 1\r\nContent-Length: 2\r\nx-a: 2\r\nX-B: 3\r\n\r\nok"
    async with replica(answers(told)) as r, transport_to(r.url) as t:
        answer = await t.exchange(Outgoing("GET", b"/v1/x", [(b"Host", b"replica")]))
        answer.stream.close()
    assert answer.headers == [
        (b"x-b", b"1"),
        (b"content-length", b"2"),
        (b"x-a", b"2"),
        (b"x-b", b"3"),
    ]
    assert (answer.header(b"x-b"), answer.header(b"x-c")) == (b"1", b"")


async def test_a_body_of_tiny_chunks_is_taken_a_little_at_a_time() -> None:
    """64 KiB of one-byte chunks in one receive held the event loop for 8 ms."""
    tiny, large = b"1\r\nx\r\n", b"8000\r\n" + b"y" * 0x8000 + b"\r\n"

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + 40_000 * tiny + 20 * large + b"0\r\n\r\n")

    async with replica(script) as r, transport_to(r.url) as t:
        answer = await t.exchange(Outgoing("GET", b"/v1/x", [(b"Host", b"replica")]))
        await trio.sleep(0.1)  # as much as the socket holds is there at each step
        steps = [step async for step in answer.stream]
    assert b"".join(steps) == 40_000 * b"x" + 20 * b"y" * 0x8000
    assert max(step.count(b"x") for step in steps) <= FEW_BYTES // len(tiny) + 1
    assert max(step.count(b"y") for step in steps) > 4 * FEW_BYTES, "large chunks are not held up"
