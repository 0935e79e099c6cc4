"""An HTTP/1.1 connection, plain or under TLS, served with as little as correctness allows.

Hypercorn's own class spends 430 µs a request: a task, a channel and three locked, shielded sends
for each response. Here the application runs inline in the connection's task, a head and its first
bytes leave in one system call, and hang-ups and deadlines are watched for all connections at once.
Requests of one connection are answered in order; while one is under way nothing more is read than
what came with it (at most READ_BYTES), so a pipelining client is held back by TCP.
"""

import logging
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

import trio

from trioroute.proxy.serving.asgi import ASGIApp, Scope, broken_on_purpose
from trioroute.proxy.serving.chunked import ChunkedBody, too_large_body
from trioroute.proxy.serving.exchange import EXTENSION as OUTLET
from trioroute.proxy.serving.exchange import Exchange
from trioroute.proxy.serving.gathering import Gathered
from trioroute.proxy.serving.hangup import EXTENSION
from trioroute.proxy.serving.hub import Asked, Hub
from trioroute.proxy.serving.pace import Pace
from trioroute.proxy.serving.parser import RequestHead, check_unfinished, parse_head, too_large_head
from trioroute.proxy.serving.refusal import FAILED, NO_WEBSOCKET, Refusal
from trioroute.proxy.serving.refusing import linger, refuse
from trioroute.proxy.serving.wire import ClientGone, Wire

logger = logging.getLogger("trioroute.proxy")

HandOver = Callable[[Wire, bytes], Awaitable[None]]
H2_PREFACE_HEAD = b"PRI * HTTP/2.0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class LeanConnection:
    """Serves one accepted connection until it ends. Never raises for what a client does."""

    def __init__(
        self, hub: Hub, app: ASGIApp, wire: Wire, hand_over: HandOver | None = None
    ) -> None:
        """``hand_over`` takes HTTP/2 by prior knowledge, of which TLS has none (RFC 9113, 3.2)."""
        self._hub = hub
        self._app = app
        self._limits = hub.limits
        self._hand_over = hand_over
        self._wire = wire
        self._buffer = b""
        self._exchange: Exchange | None = None
        self._asked: Asked = b""
        """What is known of the head of the request that is under way, for a refusal."""
        self._scope = trio.CancelScope()
        """Cancelled by a hang-up. One for all requests, for none comes after a hang-up."""
        sock = wire.stream.socket
        self._address = (sock.getpeername()[:2], sock.getsockname()[:2])

    async def run(self) -> None:
        """Serve requests until the client or a limit ends the connection."""
        wire = self._wire
        self._hub.add(wire)
        taken_over = False
        try:
            with self._scope:
                taken_over = await self._serve()
            if not taken_over and self._may_lose_its_end():
                await linger(self._hub, wire)
        except Refusal as refusal:
            self._exchange = None
            await refuse(self._hub, wire, refusal, self._asked)
        except (ClientGone, trio.ClosedResourceError):
            pass  # gone, or a deadline without an answer
        finally:
            wire.deadline = float("inf")
            self._hub.remove(wire)
            if not taken_over:
                wire.close(reset=self._half_done())
        if taken_over and self._hand_over is not None:
            await self._hand_over(wire, self._buffer)

    def _half_done(self) -> bool:
        """A body that only the end of the connection ends must not end politely when broken."""
        exchange = self._exchange
        return exchange is not None and exchange.until_close and not exchange.complete

    def _may_lose_its_end(self) -> bool:
        """Whether a close now could reset away what the client has not taken yet."""
        exchange, wire = self._exchange, self._wire
        if exchange is None or not exchange.started or wire.client.gone or self._half_done():
            return False
        return bool(self._buffer) or wire.unsettled()

    async def _serve(self) -> bool:
        """Returns True when the connection is to go to hypercorn, bytes in `_buffer` included."""
        first = True
        while True:
            head = await self._read_head()
            if head is None:
                return False
            if first and head == H2_PREFACE_HEAD and self._hand_over is not None:
                self._buffer = head + self._buffer
                return True
            first = False
            self._asked = head
            request = parse_head(head, self._limits)
            self._asked = request
            door = self._hub.door
            if door is not None and (refusal := door(request.path, request.headers)) is not None:
                raise refusal
            if request.upgrade == b"websocket":
                raise NO_WEBSOCKET
            exchange = await self._received(request)
            if exchange is None or self._wire.client.gone:
                return False
            if not await self._answer(request, exchange):
                return False
            if self._wire.hogs:  # many requests at once, none of which waits for anything
                await self._wire.give_way()

    async def _received(self, request: RequestHead) -> Exchange | None:
        """The whole request, or None when the client left first.

        Only the exchange holds the body, until the application takes it: who is done with it early
        can free it, while its answer streams for minutes.
        """
        body: bytes | None = b""
        if request.content_length or request.chunked:
            body = await self._read_body(request)
        return None if body is None else Exchange(self._hub, self._wire, request, body)

    async def _read_head(self) -> bytes | None:
        """One head with its empty line; None when the connection ends before the next request."""
        wire, limits = self._wire, self._limits
        buffer = self._buffer
        wire.deadline = self._hub.deadline(limits.keep_alive_s)
        scanned = 0
        in_head = False
        while True:
            if buffer and not in_head:
                # RFC 9112 section 2.2: empty lines before a request line are skipped.
                buffer = buffer.lstrip(b"\r\n")
                in_head = bool(buffer)
                if in_head:
                    wire.deadline = self._hub.deadline(limits.header_timeout_s)
            end = buffer.find(b"\r\n\r\n", scanned)
            if end >= 0:
                break
            if in_head:
                self._asked = buffer
                check_unfinished(buffer, limits)
            data = await (self._read_in_head() if in_head else self._read_idle())
            if not data:
                return None
            scanned = max(0, len(buffer) - 3)
            buffer += data
        wire.deadline = float("inf")
        end += 4
        if end > limits.header_bytes:
            self._asked = buffer
            raise too_large_head(limits, str(end))
        self._buffer = buffer[end:]
        return buffer[:end]

    async def _read_idle(self) -> bytes:
        """The first bytes of a request; a request that raced with the closing is still taken."""
        wire, hub = self._wire, self._hub
        unused = self._exchange is None
        if hub.ended or (hub.ending and not unused):
            return wire.read_now()
        hub.set_idle(wire, True, unused)
        try:
            return await wire.read()
        except trio.ClosedResourceError:
            return wire.read_now()
        finally:
            wire.expired = False
            hub.set_idle(wire, False)

    async def _read_in_head(self) -> bytes:
        try:
            return await self._wire.read()
        except trio.ClosedResourceError:
            raise Refusal(
                408,
                "request_timeout",
                f"the request head took over {self._limits.header_timeout_s:g} s, the limit here: "
                "send it at once",
            ) from None

    async def _read_body(self, request: RequestHead) -> bytes | None:
        """The whole body, or None when the client left first."""
        limits = self._limits
        if request.content_length > limits.body_bytes:
            size = str(request.content_length)
            raise too_large_body(limits.body_bytes, size, limits.body_setting)
        if request.expects_continue and not self._buffer and request.http_version == "1.1":
            await self._wire.write((CONTINUE,))
        left = request.content_length - len(self._buffer)
        if left <= 0 and not request.chunked:
            body = self._buffer[: request.content_length]
            self._buffer = self._buffer[request.content_length :]
            return body
        pace = Pace(limits.body_timeout_s, trio.current_time() + limits.body_timeout_s)
        if request.chunked:
            return await self._read_chunks(
                ChunkedBody(limits.body_bytes, limits.body_setting), pace
            )
        gathered = Gathered(request.content_length)
        gathered.add(self._buffer)
        while left > 0:
            data = await self._read_body_bytes(pace, left)
            if not data:
                return None
            gathered.add(data[:left])
            self._buffer = data[left:]
            left -= len(data)
        return gathered.whole()

    async def _read_chunks(self, chunks: ChunkedBody, pace: Pace) -> bytes | None:
        data = self._buffer
        while True:
            chunks.feed(data)
            while chunks.crowded:
                await trio.lowlevel.checkpoint()
                chunks.feed(b"")
            if chunks.done:
                break
            data = await self._read_body_bytes(pace, 0)
            if not data:
                return None
        self._buffer = chunks.rest()
        return chunks.body()

    async def _read_body_bytes(self, pace: Pace, wanted: int) -> bytes:
        wire, hub = self._wire, self._hub
        wire.deadline, held_up_s = pace.deadline, hub.held_up_s
        try:
            data = await wire.read_on(wanted)
        except trio.ClosedResourceError:
            raise Refusal(408, "request_timeout", pace.too_slow()) from None
        finally:
            wire.deadline = float("inf")
        pace.deadline += hub.held_up_s - held_up_s
        pace.brought(len(data), trio.current_time())
        return data

    async def _answer(self, request: RequestHead, exchange: Exchange) -> bool:
        """Run the application; returns whether the connection can take another request."""
        wire = self._wire
        self._exchange = exchange
        failed = False
        try:
            wire.scope = self._scope
            await self._app(self._asgi_scope(request, exchange), exchange.receive, exchange.send)
        except ClientGone:
            return False
        except Exception as error:
            failed = True
            if broken_on_purpose(error):
                return False
            logger.exception("the application failed on %s %r", request.method, request.path)
        finally:
            wire.scope = None
        if exchange.complete:
            return exchange.keep_alive and not failed and not wire.client.gone
        if wire.client.gone:
            return False
        if exchange.started:
            if not failed:
                logger.error("the application left %s %r unended", request.method, request.path)
            return False
        if not failed:
            logger.error("the application did not answer %s %r", request.method, request.path)
        exchange = self._exchange = Exchange(self._hub, wire, request, b"")
        exchange.keep_alive = False
        await exchange.refuse(self._hub.addressed(FAILED, request))
        return False

    def _asgi_scope(self, request: RequestHead, exchange: Exchange) -> Scope:
        client, server = self._address
        path = request.path.decode("ascii")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.http_version,
            "method": request.method,
            "scheme": self._wire.scheme,
            "path": unquote(path) if "%" in path else path,
            "raw_path": request.path,
            "query_string": request.query,
            "root_path": "",
            "headers": request.headers,
            "client": client,
            "server": server,
            "extensions": {EXTENSION: self._wire.client, OUTLET: exchange},
        }
