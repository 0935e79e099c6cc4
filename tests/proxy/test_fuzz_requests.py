"""Damaged requests: no crash, and what a replica gets is exactly what was asked, or nothing.

Two readers that are not ours judge: llhttp (what Node and many proxies read with) and h11.
"""

import attrs
import h11
import httptools
import pytest
import trio

from tests.proxy.mutations import CASES, SOCKET_CASES, TIMEOUT_S, cases
from tests.proxy.scripted import OK, Peer
from tests.proxy.serving import client
from tests.proxy.whole import whole
from trioroute.proxy.headers import to_upstream
from trioroute.proxy.serving.chunked import ChunkedBody
from trioroute.proxy.serving.limits import ServerLimits
from trioroute.proxy.serving.parser import RequestHead, check_unfinished, parse_head
from trioroute.proxy.serving.refusal import Refusal
from trioroute.proxy.upstream.message import Outgoing

pytestmark = pytest.mark.timeout(TIMEOUT_S)

LIMITS = ServerLimits(body_bytes=1 << 20)
JSON = b'{"model":"m","messages":[]}'
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\n"
SAMPLES = (
    POST + b"Content-Length: 27\r\n\r\n" + JSON,
    POST + b"Transfer-Encoding: chunked\r\n\r\n1b\r\n" + JSON + b"\r\n0\r\n\r\n",
    POST + b"transfer-encoding: chunked\r\n\r\n5;a=b\r\n{}   \r\n0\r\nx-t: 1\r\n\r\n",
    b"GET /v1/models?a=b HTTP/1.1\r\nhost: t\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n",
    b"GET http://t/v1/files HTTP/1.1\r\nhost: t\r\nConnection: close, x-a\r\nX-A: 1\r\n\r\n",
    b"DELETE /v1/files/1 HTTP/1.0\r\nconnection: keep-alive\r\nx-forwarded-for: 1.2.3.4\r\n\r\n",
)
SPICE = (
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"0\r\n\r\n", b"\x00", b"\x0b", b"\x85", b"\xff"),
    *(b"\r\n ", b"\r\n\t", b";", b",", b"chunked", b"Content-Length: 5\r\n", b"HTTP/1.1", b"5\r\n"),
    *(b"Content-Length: 27\r\n", b"content-length:0\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"-1",
        b"+5",
        b"0x1b",
    ),
    *(b"GET /v1/models HTTP/1.1\r\nhost: t\r\n\r\n", b"1b", b"00000000000000000001b", b"HTTP/1.0"),
    *(b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"Expect: 100-continue\r\n", b"Host: t\r\n"),
)

Asked = tuple[bytes, bytes, bytes]
"""Method, target, body."""


def ours(data: bytes) -> tuple[list[tuple[RequestHead, Asked]], bool]:
    """What our readers take of one connection's bytes; whether it ended in a refusal."""
    taken: list[tuple[RequestHead, Asked]] = []
    try:
        while data := data.lstrip(b"\r\n"):
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:
                check_unfinished(data, LIMITS)
                break
            request = parse_head(data[:end], LIMITS)
            target, data = data[:end].split(b" ", 2)[1], data[end:]
            if request.chunked:
                chunks = ChunkedBody(LIMITS.body_bytes)
                chunks.feed(data)
                if not chunks.done:
                    break
                body, data = chunks.body(), chunks.rest()
            else:
                if len(data) < request.content_length:
                    break
                body, data = data[: request.content_length], data[request.content_length :]
            taken.append((request, (request.method.encode(), target, body)))
            if not request.keep_alive:
                break
    except Refusal:
        return taken, True
    return taken, False


@attrs.define
class Llhttp:
    """What llhttp takes of the same bytes, up to its first complaint."""

    taken: list[Asked] = attrs.field(factory=list)
    _url: bytes = b""
    _body: bytes = b""

    def on_message_begin(self) -> None:
        self._url = self._body = b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.taken.append((self.parser.get_method(), self._url, self._body))

    def read(self, data: bytes) -> bool:
        """Whether it took everything without complaint."""
        self.parser = httptools.HttpRequestParser(self)
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return False
        return True

    parser: httptools.HttpRequestParser = attrs.field(init=False)


def forwarded(request: RequestHead, body: bytes) -> bytes:
    """What goes to a replica, as ``dispatch`` puts it together."""
    headers = to_upstream(
        request.headers,
        host=b"replica:1",
        request_id="id",
        peer="127.0.0.1",
        scheme="http",
        authorization=None,
        forward_client_auth=True,
    )
    if body or request.method in ("POST", "PUT", "PATCH"):
        headers.append((b"content-length", b"%d" % len(body)))
    target = request.path + (b"?" + request.query if request.query else b"")
    return Outgoing(request.method, target, headers, body).head() + body


KNOWN = {b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH"}
"""Methods that llhttp knows and that switch nothing."""


def test_fuzz_no_other_reader_sees_other_requests() -> None:
    accepted = refused = compared = 0
    for data in cases("requests", SAMPLES, SPICE, CASES):
        taken, ended = ours(data)
        accepted += len(taken)
        refused += ended
        llhttp = Llhttp()
        llhttp.read(data)
        for (request, asked), other in zip(taken, llhttp.taken, strict=False):
            if asked[0] not in KNOWN or request.upgrade:
                break
            assert asked == other, data
            compared += 1
        for request, (method, _, body) in taken:
            if method not in KNOWN:
                continue
            sent = forwarded(request, body)
            reader = Llhttp()
            assert reader.read(sent), sent
            path = request.path + (b"?" + request.query if request.query else b"")
            assert reader.taken == [(method, path, body)], sent
    assert accepted > CASES / 4
    assert refused > CASES / 4
    assert compared > CASES / 5


@attrs.define
class Replica:
    """Reads strictly what it gets, and keeps it."""

    got: list[Asked] = attrs.field(factory=list)
    bad: list[str] = attrs.field(factory=list)

    async def __call__(self, peer: Peer) -> None:
        reader = h11.Connection(h11.SERVER)
        body, head = b"", None
        try:
            while True:
                event = reader.next_event()
                if event is h11.NEED_DATA:
                    reader.receive_data(await peer.stream.receive_some(65536))
                elif isinstance(event, h11.Request):
                    head, body = event, b""
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    assert head is not None
                    self.got.append((head.method, head.target, body))
                    await peer.send(OK)
                    reader.send(h11.Response(status_code=200, headers=[("content-length", "2")]))
                    reader.send(h11.Data(b"ok"))
                    reader.send(h11.EndOfMessage())
                    reader.start_next_cycle()
                else:
                    return
        except (h11.LocalProtocolError, h11.RemoteProtocolError) as error:
            self.bad.append(str(error))


async def test_fuzz_a_replica_gets_whole_requests_or_nothing() -> None:
    replica = Replica()
    async with whole(replica, limits=LIMITS) as rig:
        asked: set[Asked] = {(b"GET", b"/v1/models", b"")}  # what the router asks itself
        slots = trio.CapacityLimiter(40)

        async def one(data: bytes, answers: int) -> None:
            async with slots, client(rig.port) as raw:
                with trio.move_on_after(2 if answers else 0.02):
                    try:
                        await raw.send(data)
                        while raw.buffer.count(b"HTTP/1.1 ") < answers and await raw.fill():
                            pass
                    except (trio.BrokenResourceError, trio.ClosedResourceError):
                        pass
                raw.reset()

        async with trio.open_nursery() as nursery:
            for data in cases("over sockets", SAMPLES, SPICE, SOCKET_CASES):
                taken, refused = ours(data)
                for request, (method, _, body) in taken:
                    path = request.path + (b"?" + request.query if request.query else b"")
                    asked.add((method, path, body))
                nursery.start_soon(one, data, len(taken) + refused)
        assert not replica.bad
        assert len(replica.got) > SOCKET_CASES / 10
        assert not set(replica.got) - asked
