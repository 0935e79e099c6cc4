"""What goes to a replica and what comes back, without httpx's objects.

httpx.Request, Response and their Headers cost 8 % of a whole request's CPU (2 KB, 32 connections);
who wants them uses ``ReplicaTransport.handle_async_request``.
"""

import re
from collections.abc import AsyncIterable, AsyncIterator, Sequence

import attrs
import httpx

from trioroute.proxy.upstream.error import UpstreamError
from trioroute.proxy.upstream.pool import IdlePool
from trioroute.proxy.upstream.response_parser import ResponseParser
from trioroute.proxy.upstream.wire import UpstreamWire

TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
METHOD = re.compile(TOKEN)
TARGET = re.compile(rb"[!-~]++")
NAMES = re.compile(rb"(?:%b\n)*+" % TOKEN.encode())


@attrs.define(slots=True)
class Outgoing:
    """One request as it leaves: names, order and framing of ``headers`` are the caller's.

    ``target`` is the path and query, byte for byte. A body that is not in memory cannot be sent
    a second time.
    """

    method: str
    target: bytes
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes | AsyncIterable[bytes] = b""

    def head(self) -> bytes:
        """The request line and headers, as given: header case and order are kept.

        Raises UpstreamError (local) for a method or name that is no token, a target with anything
        but visible ASCII, CR, LF or NUL in a header: a replica would read another request. The
        server in front refuses these already, whoever uses this without it is stopped here.
        """
        if METHOD.fullmatch(self.method) is None or TARGET.fullmatch(self.target) is None:
            raise UpstreamError("protocol", "no request line can be made of this", local=True)
        if NAMES.fullmatch(b"".join([b"%b\n" % name for name, _ in self.headers])) is None:
            raise UpstreamError("protocol", "the name of a request header is no token", local=True)
        parts = [self.method.encode("ascii"), b" ", self.target, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            parts += (name, b": ", value, b"\r\n")
        parts.append(b"\r\n")
        head = b"".join(parts)
        lines = len(self.headers) + 2
        if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\x00" in head:
            raise UpstreamError("protocol", "a request header holds CR, LF or NUL", local=True)
        return head

    @property
    def chunked(self) -> bool:
        """Whether the body has to be framed in chunks."""
        return any(name.lower() == b"transfer-encoding" for name, _ in self.headers)


class UpstreamStream(httpx.AsyncByteStream):
    """The body of one response: each step is what one receive brought, without chunk framing.

    Never a clean end before the replica's: a cut raises UpstreamError (fin, reset, timeout,
    protocol). Closing it early, or a cancelled step, closes the connection at once.
    """

    def __init__(self, wire: UpstreamWire, parser: ResponseParser, pool: IdlePool) -> None:
        self._wire: UpstreamWire | None = wire
        self._parser = parser
        self._pool = pool
        self._closed_unless_good = _ClosedUnlessGood(self)
        self._release_if_complete()

    @property
    def complete(self) -> bool:
        """Whether the replica's own end of the body was read."""
        return self._parser.complete

    @property
    def until_close(self) -> bool:
        """Whether only the end of the connection ends this body: a cut looks the same."""
        return self._parser.until_close

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        parser = self._parser
        if parser.parts:
            return parser.take()
        with self._closed_unless_good:
            while not parser.parts and not parser.complete:
                if self._wire is None:
                    raise httpx.StreamClosed
                parser.take_in(await self._wire.receive(parser.wanted_bytes))
        self._release_if_complete()
        if not parser.parts:
            raise StopAsyncIteration
        return parser.take()

    @property
    def readable_fd(self) -> int | None:
        """What tells that ``read_now`` would bring something; None: only waiting does."""
        return None if self._wire is None else self._wire.readable_fd

    def read_now(self) -> bytes:
        """What one receive brings without waiting, maybe nothing. Raises as a step does."""
        parser, wire = self._parser, self._wire
        if wire is None:
            raise httpx.StreamClosed
        try:
            data = wire.receive_now(parser.wanted_bytes)
            if data is None:
                return b""
            parser.take_in(data)
        except Exception as error:
            self.close_for(error)
            raise
        if parser.complete:
            self._release_if_complete()
        return parser.take() if parser.parts else b""

    def close_for(self, error: BaseException) -> None:
        """A step failed or was cancelled. By the time a body is read the request has been sent,
        which an error is told."""
        if isinstance(error, UpstreamError):
            error.sent = True
        self.close()

    def close(self) -> None:
        """Give up the rest: the connection is closed now. Plain, so it works while cancelled."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    async def aclose(self) -> None:
        """As close, for httpx."""
        self.close()

    def _release_if_complete(self) -> None:
        if self._parser.complete and self._wire is not None:
            wire, self._wire = self._wire, None
            if self._parser.reusable:
                self._pool.give(wire)
            else:
                wire.close()


@attrs.frozen(slots=True)
class _ClosedUnlessGood:
    """Around a step that waits: what fails or is cancelled in it closes the stream."""

    stream: UpstreamStream

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.stream.close_for(error)


@attrs.define(slots=True)
class Answer:
    """A response whose head has come. Header names are lower case, order is kept.

    ``stale_retry``: a kept connection turned out to be closed, and the request went out again.
    """

    status: int
    headers: list[tuple[bytes, bytes]]
    stream: UpstreamStream
    stale_retry: bool = False

    def header(self, name: bytes) -> bytes:
        """The first value of a header, empty without one; ``name`` in lower case."""
        for key, value in self.headers:
            if key == name:
                return value
        return b""
