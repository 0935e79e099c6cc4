"""HTTP/1.1 on one socket: trio and httptools, nothing between the faults and the socket.

Why not hypercorn: the faults need what an ASGI server hides by design: a reset after n chunks, a
FIN without the last chunk, bytes that are not HTTP, a close before the headers. And the router is
served by hypercorn: a bug of that library must not hide by being on both sides of a test.

One task per connection reads for as long as the connection lives, so a client that leaves is
noticed at once and the request's task is cancelled. Limits and times are uvicorn's where captured:
an idle connection is closed 5 s after its last answer, one that never sent anything is kept.
"""

import logging
import math
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable
from email.utils import formatdate
from http import HTTPStatus

import attrs
import httptools
import trio

KEEP_ALIVE_S = 5.0
MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_HEAD_BYTES = 256 * 1024
_READ_BYTES = 64 * 1024
_PIPELINED = 8
_LINGER_ZERO = struct.pack("ii", 1, 0)
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)

_log = logging.getLogger(__name__)


@attrs.define
class Request:
    """One request, read completely. Header names are lower case; of repeated ones the last wins."""

    method: str = ""
    target: bytes = b""
    headers: dict[str, str] = attrs.field(factory=dict)
    body: bytearray = attrs.field(factory=bytearray)
    keep_alive: bool = True
    version: str = "1.1"

    @property
    def path(self) -> str:
        """The path without the query."""
        return self.target.split(b"?", 1)[0].decode("latin-1")


class RefusedRequestError(Exception):
    """A request that is over a limit; carries the status to answer before closing."""

    def __init__(self, status: int) -> None:
        super().__init__(HTTPStatus(status).phrase)
        self.status = status


@attrs.define(eq=False)
class Exchange:
    """One request and the answer to it. Sending raises trio.BrokenResourceError if nobody reads."""

    request: Request
    stream: trio.SocketStream
    may_stay: Callable[[], bool] = lambda: True
    started: bool = attrs.field(default=False, init=False)
    status: int | None = attrs.field(default=None, init=False)
    over: bool = attrs.field(default=False, init=False)
    """The connection ends with this answer."""
    _chunked: bool = attrs.field(default=False, init=False)

    async def answer(
        self,
        status: int,
        body: bytes = b"",
        content_type: str = "application/json",
        headers: Iterable[tuple[str, str]] = (),
    ) -> None:
        """A whole answer with its length."""
        extra = [("content-length", str(len(body))), *headers]
        if body:
            extra.append(("content-type", content_type))
        await self.stream.send_all(self._head(status, extra) + body)

    async def answer_half(self, status: int, body: bytes) -> None:
        """The head of a whole answer and half of its body; the caller closes the connection."""
        extra = [("content-length", str(len(body))), ("content-type", "application/json")]
        await self.stream.send_all(self._head(status, extra) + body[: len(body) // 2])

    async def start(self, content_type: str = "text/event-stream; charset=utf-8") -> None:
        """The head of a streamed 200; chunked, or ended by the close for HTTP/1.0."""
        self._chunked = self.request.version == "1.1"
        extra = [("content-type", content_type)]
        if self._chunked:
            extra.append(("transfer-encoding", "chunked"))
        else:
            self.over = True
        await self.stream.send_all(self._head(200, extra))

    async def send(self, parts: Iterable[bytes]) -> None:
        """Each part as one chunk, all of them in one write."""
        if self._chunked:
            parts = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
        await self.stream.send_all(b"".join(parts))

    async def finish(self) -> None:
        """The last chunk."""
        if self._chunked:
            await self.stream.send_all(b"0\r\n\r\n")

    async def raw(self, data: bytes) -> None:
        """Bytes as they are, whether or not they are HTTP."""
        self.started = True
        await self.stream.send_all(data)

    async def close(self, *, reset: bool) -> None:
        """Ends the connection now: with a FIN, or with a reset that throws away what is unread."""
        self.over = True
        if reset:
            # What is still in the send buffer dies with a reset; on loopback a moment is enough
            # for the chunks before the cut to arrive.
            await trio.sleep(0.01)
            self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        await self.stream.aclose()

    def _head(self, status: int, extra: Iterable[tuple[str, str]]) -> bytes:
        self.started = True
        self.status = status
        if not (self.request.keep_alive and self.may_stay()):
            self.over = True
        lines = [
            f"HTTP/1.1 {status} {_phrase(status)}",
            f"date: {formatdate(usegmt=True)}",
            "server: uvicorn",
            *(f"{name}: {value}" for name, value in extra),
            "vary: Origin",
        ]
        if self.over:
            lines.append("connection: close")
        return "\r\n".join((*lines, "\r\n")).encode("latin-1")


Respond = Callable[[Exchange], Awaitable[None]]


@attrs.define(eq=False)
class Connection:
    """Reads requests and has them answered, one after the other, until either side ends it.

    `may_stay` is asked before each answer: false adds `connection: close`.
    """

    stream: trio.SocketStream
    respond: Respond
    may_stay: Callable[[], bool]
    idle: bool = attrs.field(default=True, init=False)
    """No request is being read or answered."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _request: Request | None = attrs.field(default=None, init=False)
    _head_bytes: int = attrs.field(default=0, init=False)
    _in_head: bool = attrs.field(default=True, init=False)
    _expects_100: bool = attrs.field(default=False, init=False)
    _parser: httptools.HttpRequestParser = attrs.field(init=False)
    _inbox: trio.MemorySendChannel[Request] = attrs.field(init=False)
    _requests: trio.MemoryReceiveChannel[Request] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """A parser that calls the on_* methods below, and the queue to the answering task."""
        self._parser = httptools.HttpRequestParser(self)
        self._inbox, self._requests = trio.open_memory_channel[Request](_PIPELINED)

    async def run(self) -> None:
        """Serves the connection to its end; never raises for what a client does."""
        with self.scope:
            async with self.stream, trio.open_nursery() as nursery:
                nursery.start_soon(self._read, nursery.cancel_scope)
                await self._answer_all()
                nursery.cancel_scope.cancel()

    async def _read(self, everything: trio.CancelScope) -> None:
        try:
            while data := await self.stream.receive_some(_READ_BYTES):
                self._feed(data)
                if self._expects_100 and self.idle:
                    self._expects_100 = False
                    await self.stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
        except _GONE:
            pass
        except (httptools.HttpParserError, RefusedRequestError, trio.WouldBlock) as error:
            await self._refuse(getattr(error, "status", 400))
        # An EOF counts as gone, also if the client only closed its sending side: so does uvicorn.
        everything.cancel()

    def _feed(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # not offered here; answered as it is, though httptools then skips any body
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error from None
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            raise RefusedRequestError(431)

    async def _refuse(self, status: int) -> None:
        if self.idle:
            exchange = Exchange(Request(keep_alive=False), self.stream)
            try:
                await exchange.answer(status, b"Invalid HTTP request received.", "text/plain")
            except _GONE:
                return

    async def _answer_all(self) -> None:
        wait_s = math.inf
        while (request := await self._next(wait_s)) is not None:
            self.idle = False
            exchange = Exchange(request, self.stream, self.may_stay)
            try:
                await self._answer(exchange)
            except _GONE:
                return
            if exchange.over or not self.may_stay():
                return
            self.idle = True
            wait_s = KEEP_ALIVE_S

    async def _next(self, wait_s: float) -> Request | None:
        while True:
            with trio.move_on_after(wait_s):
                return await self._requests.receive()
            if self._request is None:
                return None

    async def _answer(self, exchange: Exchange) -> None:
        try:
            await self.respond(exchange)
        except _GONE:
            raise
        except Exception:
            _log.exception("answering %s %s failed", exchange.request.method, exchange.request.path)
            if exchange.started:
                await exchange.close(reset=True)
            else:
                await exchange.answer(500, b"Internal Server Error", "text/plain; charset=utf-8")

    def on_message_begin(self) -> None:
        """httptools: a request line begins."""
        self._request = Request()

    def on_url(self, url: bytes) -> None:
        """httptools: the target, perhaps in pieces."""
        self._now.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: one header."""
        self._now.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """httptools: the body begins."""
        self._in_head = False
        self._now.method = self._parser.get_method().decode()
        self._now.version = self._parser.get_http_version()
        self._now.keep_alive = self._parser.should_keep_alive()
        self._expects_100 = self._now.headers.get("expect", "").lower() == "100-continue"

    def on_body(self, body: bytes) -> None:
        """httptools: a piece of the body."""
        if len(self._now.body) + len(body) > MAX_BODY_BYTES:
            raise RefusedRequestError(413)
        self._now.body += body

    def on_message_complete(self) -> None:
        """httptools: the request is complete."""
        request, self._request = self._now, None
        self._in_head, self._head_bytes = True, 0
        self._inbox.send_nowait(request)

    @property
    def _now(self) -> Request:
        assert self._request is not None, "httptools begins every message"
        return self._request


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
