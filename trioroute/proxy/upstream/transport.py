"""Requests to one replica: ``exchange`` for the data path, and the same as an httpx transport.

httpx's own pool is not used, because it rescans all connections at each request: 5,800 µs a request
at 256 in flight were measured.
"""

import ssl
from collections.abc import AsyncIterable
from urllib.parse import urlsplit

import httpx

from trioroute.proxy.upstream.error import UpstreamError
from trioroute.proxy.upstream.exchange import UpstreamExchange
from trioroute.proxy.upstream.message import Answer, Outgoing, UpstreamStream
from trioroute.proxy.upstream.pool import IdlePool
from trioroute.proxy.upstream.response_parser import HEAD_BYTES, ResponseParser
from trioroute.proxy.upstream.wire import Origin, UpstreamWire, connect


class ReplicaTransport(httpx.AsyncBaseTransport):
    """Requests to one origin, over its own keep-alive pool.

    `idle_expiry_s` stays below the 5 s after which uvicorn, and so vLLM, closes idle connections.
    `tls` is the context for https (default: the system's roots). A request's extension `target`
    (bytes, as in httpcore) replaces the path and query of its URL, byte for byte.
    """

    def __init__(
        self,
        url: str,
        *,
        connect_timeout_s: float,
        max_idle: int = 64,
        idle_expiry_s: float = 4.0,
        tls: ssl.SSLContext | None = None,
        max_head_bytes: int = HEAD_BYTES,
    ) -> None:
        self.origin = _origin(url, tls)
        self.stale_retries = 0
        """Requests sent again because a kept connection turned out to be closed."""
        self._connect_timeout_s = connect_timeout_s
        self._max_head_bytes = max_head_bytes
        self._pool = IdlePool(max_idle, idle_expiry_s)

    @property
    def idle(self) -> int:
        """Connections kept for reuse."""
        return len(self._pool)

    def sweep(self) -> None:
        """Close kept connections that are too old or that the replica closed."""
        self._pool.sweep()

    def close_idle(self) -> None:
        """Close kept connections: after a failure they are not to be trusted."""
        self._pool.clear()

    def close(self) -> None:
        """Close kept connections now, and those in use when their responses end."""
        self._pool.close()

    async def aclose(self) -> None:
        """As close."""
        self.close()

    async def exchange(self, request: Outgoing) -> Answer:
        """Send a request; returns when the head of the response has come.

        Raises UpstreamError. No time limit but the one for connecting: the caller cancels.
        A kept connection that closes before any byte of a response is replaced once; an error of
        the new one tells whether the replica may have worked on the request before.
        """
        wire = self._pool.take()
        stale = sent_before = False
        if wire is not None:
            exchange = UpstreamExchange(wire, request, self._max_head_bytes)
            try:
                return self._answer(wire, await exchange.run())
            except UpstreamError as error:
                stale = error.cause in ("fin", "reset") and not exchange.parser.seen_bytes
                if not (stale and exchange.replayable):
                    raise
                sent_before = error.sent
            self.stale_retries += 1
        try:
            wire = await connect(self.origin, self._connect_timeout_s)
            exchange = UpstreamExchange(wire, request, self._max_head_bytes)
            return self._answer(wire, await exchange.run(), stale)
        except UpstreamError as error:
            error.sent_before = sent_before
            raise

    def _answer(self, wire: UpstreamWire, parser: ResponseParser, stale: bool = False) -> Answer:
        stream = UpstreamStream(wire, parser, self._pool)
        return Answer(parser.status, parser.headers, stream, stale)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """``exchange`` as httpx has it; the extension ``stale_retry`` is there where it is true."""
        stream = request.stream
        body: bytes | AsyncIterable[bytes]
        if isinstance(stream, httpx.ByteStream):
            body = b"".join(stream)  # one piece: the same object, not a copy
        elif isinstance(stream, AsyncIterable):
            body = stream
        else:
            raise TypeError("the request's stream must be async iterable")
        target: bytes = request.extensions.get("target") or request.url.raw_path
        answer = await self.exchange(Outgoing(request.method, target, request.headers.raw, body))
        response = httpx.Response(answer.status, headers=answer.headers, stream=answer.stream)
        if answer.stale_retry:
            response.extensions["stale_retry"] = True
        return response


def _origin(url: str, tls: ssl.SSLContext | None) -> Origin:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        raise ValueError(f"replica URL {url!r} is not http://HOST:PORT or https://HOST:PORT")
    if parts.scheme == "http":
        return Origin(parts.hostname, port or 80)
    return Origin(parts.hostname, port or 443, tls or ssl.create_default_context())
