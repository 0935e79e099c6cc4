"""Damaged responses: no crash, no other end than the replica's, and nothing behind it."""

import random
from collections.abc import Sequence

import h11
import pytest
import trio

from tests.proxy.mutations import CASES, SOCKET_CASES, TIMEOUT_S, cases, cut
from tests.proxy.replies import GOOD_STREAM, reply, stream
from tests.proxy.scripted import Peer
from tests.proxy.serving import RawClient, client
from tests.proxy.whole import chat, request, whole
from trioroute.proxy.upstream.error import UpstreamError
from trioroute.proxy.upstream.response_parser import ResponseParser

pytestmark = pytest.mark.timeout(TIMEOUT_S)

SAMPLES = (
    reply(b'{"usage":{"prompt_tokens":1,"completion_tokens":2}}'),
    reply(b"no", 503, "retry-after: 1"),
    stream(*GOOD_STREAM),
    b"HTTP/1.1 100 Continue\r\n\r\n" + reply(b"after", 200, "x-a: 1"),
    b"HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nuntil the end",
    b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n0\r\nx-t: 1\r\n\r\n",
)
SPICE = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b":",
        b"0\r\n\r\n",
        b"\x00",
        b"\xff",
        b"\r\n ",
        b"data: ",
    ),
    *(b"Content-Length: 5\r\n", b"content-length: 2\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Transfer-Encoding: gzip\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 101 X\r\n\r\n"),
    *(b"HTTP/1.1", b"HTTP/1.0", b"204", b"304", b"ffffffffffffffff\r\n", b"-1", b"5\r\n", b"\n\n"),
    *(b"Connection: keep-alive\r\n", b"Connection: x-request-id\r\n", b"Set-Cookie: a\r\n"),
)

Read = tuple[object, ...]


def read(pieces: Sequence[bytes], method: str = "POST") -> tuple[Read, ResponseParser]:
    """What our parser makes of a response in these pieces, and of the end of the connection."""
    parser = ResponseParser(method)
    try:
        for piece in pieces:
            if piece:
                parser.feed(piece)
        whole_before_end = parser.complete
        parser.end()
    except UpstreamError as error:
        return ("broken", error.cause), parser
    body = b"".join(parser.parts)
    return (parser.status, parser.headers, body, whole_before_end, parser.reusable), parser


def h11_body(data: bytes) -> bytes | None:
    """The body as h11 reads it, None if it complains or the body is not whole."""
    reader = h11.Connection(h11.CLIENT)
    reader.send(h11.Request(method="POST", target="/", headers=[("host", "t")]))
    reader.send(h11.EndOfMessage())
    body = b""
    try:
        reader.receive_data(data)
        reader.receive_data(b"")
        while not isinstance(event := reader.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                body += bytes(event.data)
            elif event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                return None
    except h11.RemoteProtocolError:
        return None
    return body


def test_fuzz_pieces_change_nothing_and_another_reader_agrees() -> None:
    chance = random.Random("pieces")
    whole_ones = broken = agreed = 0
    for data in cases("responses", SAMPLES, SPICE, CASES):
        found, parser = read([data])
        again, _ = read(cut(chance, data))
        assert found == again, data
        read([data], "HEAD")
        if found[0] == "broken":
            broken += 1
            continue
        whole_ones += 1
        other = h11_body(data)
        if other is not None:
            assert found[2] == other, data
            agreed += 1
        if parser.reusable:
            assert not parser.until_close
    assert whole_ones > CASES / 4
    assert broken > CASES / 10
    assert agreed > CASES / 5


async def answer_on(raw: RawClient, target: str) -> h11.Response:
    """One answer of the router, read strictly. EOFError for one that is cut."""
    reader = h11.Connection(h11.CLIENT)
    reader.send(h11.Request(method="POST", target=target, headers=[("host", "t")]))
    reader.send(h11.EndOfMessage())
    response: h11.Response | None = None
    while not isinstance(event := reader.next_event(), h11.EndOfMessage):
        if isinstance(event, h11.Response):
            response = event
        elif event is h11.NEED_DATA:
            if not raw.buffer and not await raw.fill():
                raise EOFError
            reader.receive_data(raw.buffer)
            raw.buffer = b""
    assert response is not None
    raw.buffer = reader.trailing_data[0]
    return response


async def test_fuzz_a_client_gets_one_answer_or_a_cut() -> None:
    """After whatever the replica said, the next answer on the connection is the router's own."""
    told = list(cases("answers", SAMPLES, SPICE, SOCKET_CASES))
    seen: dict[str, int] = {}

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(told.pop())
            await trio.sleep(0.005)
            return

    async with whole(script, eject={"request_failures": 10**6}, retries={"max": 0}) as rig:
        slots = trio.CapacityLimiter(20)

        async def one() -> None:
            rig.scrape()
            async with slots, client(rig.port) as raw:
                await raw.send(request(chat(stream=True)))
                try:
                    answer = await answer_on(raw, "/v1/chat/completions")
                except (EOFError, trio.BrokenResourceError):
                    seen["cut"] = seen.get("cut", 0) + 1
                    return
                assert 200 <= answer.status_code < 600
                try:
                    await raw.send(request(b"", "/ping", "GET"))
                    ping = await answer_on(raw, "/ping")
                except (EOFError, trio.BrokenResourceError):
                    seen["closed"] = seen.get("closed", 0) + 1
                    return
                assert ping.status_code in (200, 503)
                assert b"x-trioroute-decision" not in dict(ping.headers)
                assert raw.buffer == b""
                seen["two"] = seen.get("two", 0) + 1

        async with trio.open_nursery() as nursery:
            for _ in range(SOCKET_CASES):
                nursery.start_soon(one)
    assert seen["two"] > SOCKET_CASES / 3
    assert seen["cut"] > SOCKET_CASES / 100
