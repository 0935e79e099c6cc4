"""One request and its response on a lean connection: ASGI's receive and send, and the framing.

The response head waits for the first body message and leaves with it in one system call; a
`http.response.body` with an empty body and `more_body` true sends the head alone. Each further
message is one system call. Exactly one framing is used: the application's Content-Length, else
chunked, else (HTTP/1.0) the end of the connection; a Transfer-Encoding from the application is
ignored.
"""

from collections.abc import Iterable
from http import HTTPStatus

import trio

from trioroute.proxy.serving.asgi import Message, tells_length
from trioroute.proxy.serving.hub import Hub
from trioroute.proxy.serving.parser import RequestHead
from trioroute.proxy.serving.refusal import Refusal
from trioroute.proxy.serving.wire import Wire

EXTENSION = "trioroute.outlet"
"""Where an ASGI scope has the exchange itself, for who passes on a body without waiting."""

STATUS_LINES = {s.value: b"HTTP/1.1 %d %b\r\n" % (s, s.phrase.encode()) for s in HTTPStatus}
FRAMING = frozenset((b"content-length", b"transfer-encoding", b"connection", b"date"))
LAST_CHUNK = b"0\r\n\r\n"


class Exchange:
    """Receive and send for one call of the application."""

    __slots__ = (
        "_body",
        "_chunked",
        "_delivered",
        "_hub",
        "_left",
        "_pending",
        "_request",
        "_wire",
        "bodiless",
        "complete",
        "keep_alive",
        "passed_bytes",
        "started",
        "until_close",
    )

    def __init__(self, hub: Hub, wire: Wire, request: RequestHead, body: bytes) -> None:
        self._hub = hub
        self._wire = wire
        self._request = request
        self._body = body
        self._delivered = False
        self._pending: tuple[int, Iterable[tuple[bytes, bytes]]] | None = None
        self._chunked = False
        self._left: int | None = None
        """Body bytes still owed to the client under a Content-Length."""
        self.passed_bytes = 0
        """Of the body, through ``pass_on``."""
        self.bodiless = request.method == "HEAD"
        self.keep_alive = request.keep_alive
        self.started = False
        """Bytes of the response have left."""
        self.complete = False
        """The last byte of the response has been given to the kernel."""
        self.until_close = False
        """Only the end of the connection ends this body."""

    async def receive(self) -> Message:
        """The whole body in the first message; afterwards the disconnect.

        While the response is under way a hang-up arrives as a cancellation, not as a message.
        """
        if not self._delivered:
            self._delivered = True
            body, self._body = self._body, b""
            return {"type": "http.request", "body": body, "more_body": False}
        if not self.complete:
            await trio.sleep_forever()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take one ASGI message; returns when the kernel has its bytes.

        Raises RuntimeError for messages out of order or a body over its Content-Length,
        ValueError for a header that would break the framing.
        """
        kind = message["type"]
        if kind == "http.response.body":
            await self._send_body(message.get("body", b""), message.get("more_body", False))
        elif kind == "http.response.start":
            if self.started:
                raise RuntimeError("http.response.start was sent twice")
            self._pending = (message["status"], message.get("headers", ()))
        else:
            raise RuntimeError(f"message {kind!r} is not known to this server")

    def pass_on(self, body: bytes) -> bytes:
        """A further piece of a body that has begun and goes on, without waiting.

        What is given back (with its framing) the kernel has no room for: it goes through ``flush``
        before anything else. Raises ClientGone, RuntimeError as ``send``.
        """
        size = len(body)
        self.passed_bytes += size
        if self._chunked:
            return self._wire.write_now(b"%x\r\n%b\r\n" % (size, body))
        if self.bodiless:
            return b""
        if self._left is not None:
            self._owe_less(size)
        return self._wire.write_now(body)

    async def flush(self, rest: bytes) -> None:
        """Send what ``pass_on`` gave back. Raises as ``send``."""
        await self._wire.write_rest(memoryview(rest))

    @property
    def torn(self) -> bool:
        """Whether a piece is with the client in part, and its rest never comes."""
        return self._wire.torn

    def _owe_less(self, size: int) -> None:
        assert self._left is not None
        self._left -= size
        if self._left < 0:
            raise RuntimeError("the response body is longer than its Content-Length")

    async def refuse(self, refusal: Refusal) -> None:
        """Answer in place of an application that failed before it had sent a byte."""
        self._pending = (refusal.status, refusal.headers())
        await self._send_body(refusal.body(), False)

    async def _send_body(self, body: bytes, more: bool) -> None:
        if self.started and self._wire.hogs:
            # An application that never waits elsewhere must still let others run and be cancelled.
            # Before the bytes leave: behind the last ones, who has them all would look gone. Never
            # before the head, which has to be with the client when anything else is.
            await self._wire.give_way()
        parts: list[bytes] = []
        if not self.started:
            if self._pending is None:
                raise RuntimeError("http.response.body came before http.response.start")
            parts.append(self._head(len(body), more))
        elif self.complete:
            raise RuntimeError("http.response.body came after the last one")
        if self.bodiless:
            pass
        elif self._chunked:
            if body:
                parts += (b"%x\r\n" % len(body), body, b"\r\n" if more else b"\r\n0\r\n\r\n")
            elif not more:
                parts.append(LAST_CHUNK)
        elif body:
            if self._left is not None:
                self._owe_less(len(body))
            parts.append(body)
        if not more and self._left and not self.bodiless:
            raise RuntimeError(f"the response body is short, bytes missing: {self._left}")
        if parts:
            self.started = True
            await self._wire.write(parts)
        if not more:
            self.complete = True
            self._wire.scope = None  # from here on a hang-up interrupts nothing

    def _head(self, size: int, more: bool) -> bytes:
        assert self._pending is not None
        status, headers = self._pending
        line = STATUS_LINES.get(status)
        if line is None:
            line = b"HTTP/1.1 %d \r\n" % status
        if status < 200:
            raise ValueError(f"status {status} is not a final one")
        parts = [line]
        dated = False
        for name, value in headers:
            lowered = name.lower()
            if lowered in FRAMING:
                dated = self._note_framing(lowered, value) or dated
                if lowered != b"date":
                    continue
            parts += (lowered, b": ", value, b"\r\n")
        lines = (len(parts) - 1) // 4 + 1
        if not dated:
            parts.append(self._hub.date_line)
            lines += 1
        lines += self._add_framing(parts, status, size, more)
        parts.append(b"\r\n")
        head = b"".join(parts)
        if head.count(b"\n") != lines + 1 or head.count(b"\r") != lines + 1 or b"\x00" in head:
            raise ValueError("a response header holds CR, LF or NUL")
        return head

    def _note_framing(self, name: bytes, value: bytes) -> bool:
        """Remember what the application said about framing; True for its own date."""
        if name == b"content-length":
            self._left = int(value)
        elif name == b"connection" and b"close" in value.lower():
            self.keep_alive = False
        return name == b"date"

    def _add_framing(self, parts: list[bytes], status: int, size: int, more: bool) -> int:
        """Choose the one framing; returns the number of lines added."""
        before = len(parts)
        modern = self._request.http_version == "1.1"
        if status in (204, 304):
            self.bodiless = True
            if not tells_length(status):
                self._left = None
        elif self._left is None:
            if not more and (size or not self.bodiless):
                self._left = size
            elif modern and not self.bodiless:
                self._chunked = True
                parts.append(b"transfer-encoding: chunked\r\n")
            elif not self.bodiless:
                self.until_close = True
                self.keep_alive = False
        if self._left is not None:
            parts.append(b"content-length: %d\r\n" % self._left)
        if self._hub.draining:
            self.keep_alive = False
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        elif not modern:
            parts.append(b"connection: keep-alive\r\n")
        return len(parts) - before
