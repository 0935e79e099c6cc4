"""The only place that touches private names of hypercorn (0.18).

`hypercorn.trio.run.worker_serve` looks up its per-connection class as the global `TCPServer`. We
run a copy of that function whose `TCPServer` is ours: hypercorn keeps sockets, TLS, lifespan and
graceful shutdown, and other users of hypercorn in the same process see no change (assigning to the
module's attribute would have changed it for all of them). When the name has moved, the server
runs on unchanged hypercorn, slower, and says so.
"""

import inspect
import logging
import os
from collections.abc import Awaitable, Callable
from types import FunctionType, ModuleType

import h2.exceptions
import h11
import hypercorn.trio.run
import trio
from hypercorn.app_wrappers import ASGIWrapper

from trioroute.proxy.serving.asgi import ASGIApp, Send
from trioroute.proxy.serving.hub import Hub
from trioroute.proxy.serving.lean import LeanConnection
from trioroute.proxy.serving.refusal import Refusal

logger = logging.getLogger("trioroute.proxy")

WorkerServe = Callable[..., Awaitable[None]]
AcceptedStream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
FLUSH_S = 1.0
INTERNAL_ERROR = 2
"""RFC 9113 section 7."""


def lean_worker(hub: Hub, app: ASGIApp) -> WorkerServe | None:
    """Hypercorn's worker with lean connections for plain HTTP, or None when the seam has moved."""
    module = hypercorn.trio.run
    if not _is_in_place(module):
        return None
    serve, stock = module.worker_serve, vars(module)["TCPServer"]

    async def connect(
        stock_app: ASGIWrapper,
        config: object,
        context: object,
        state: object,
        stream: AcceptedStream,
    ) -> None:
        async def serve_stock(taken: AcceptedStream | ReplayStream) -> None:
            hub.stock_connections += 1
            try:
                await stock(stock_app, config, context, state, taken)
            except* (h11.ProtocolError, h2.exceptions.ProtocolError, ValueError) as errors:
                # Raised by hypercorn for what a peer sent: its fault, and no trace is wanted.
                hub.refused("invalid_request")
                logger.debug("a connection sent what is no HTTP", exc_info=errors)
            finally:
                hub.stock_connections -= 1

        async def hand_over(taken: trio.SocketStream, data: bytes) -> None:
            await serve_stock(ReplayStream(taken, data))

        try:
            if hub.full:
                _turn_away(hub, stream)
            elif isinstance(stream, trio.SocketStream):
                await LeanConnection(hub, app, stream, hand_over).run()
            else:
                await serve_stock(stream)
        except* OSError:
            pass  # the client was gone before its address could be read
        except* Exception as errors:
            # One connection never ends the process, whatever a peer makes a protocol class raise.
            logger.error("a connection failed", exc_info=errors)

    return _calling(connect, serve, module)


def _calling(connect: object, serve: WorkerServe, module: ModuleType) -> WorkerServe:
    """A copy of hypercorn's worker that finds ``connect`` where it looks up its own class."""
    assert isinstance(serve, FunctionType)
    copied = FunctionType(
        serve.__code__,
        {**vars(module), "TCPServer": connect},
        serve.__name__,
        serve.__defaults__,
        serve.__closure__,
    )
    copied.__kwdefaults__ = serve.__kwdefaults__
    return copied


def _is_in_place(module: ModuleType) -> bool:
    """Whether hypercorn's worker still looks up, and calls, the class as this file expects."""
    serve = getattr(module, "worker_serve", None)
    stock = getattr(module, "TCPServer", None)
    return (
        isinstance(serve, FunctionType)
        and stock is not None
        and "TCPServer" in serve.__code__.co_names
        and "sockets" in inspect.signature(serve).parameters
        and list(inspect.signature(stock).parameters)
        == ["app", "config", "context", "state", "stream"]
    )


class ReplayStream:
    """A stream that first gives bytes which were read already. Has what TCPServer asks for."""

    def __init__(self, stream: trio.SocketStream, data: bytes) -> None:
        self._stream = stream
        self._data = data

    @property
    def socket(self) -> trio.socket.SocketType:
        """The socket below, for its addresses."""
        return self._stream.socket

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """The read bytes once, then the stream's own."""
        if self._data:
            data, self._data = self._data, b""
            return data
        return await self._stream.receive_some(max_bytes)

    async def send_all(self, data: bytes) -> None:
        """As SocketStream."""
        await self._stream.send_all(data)

    async def send_eof(self) -> None:
        """As SocketStream."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """As SocketStream."""
        await self._stream.aclose()


async def break_stream(send: Send) -> None:
    """End an HTTP/2 response with RST_STREAM; HTTP/1.1 needs nothing (the connection closes).

    Hypercorn forgets an HTTP/2 stream whose application failed half-way and leaves the client
    waiting for ever. Bytes already queued get FLUSH_S to leave first.
    """
    stream = getattr(send, "__self__", None)
    protocol = getattr(getattr(stream, "send", None), "__self__", None)
    reset = getattr(getattr(protocol, "connection", None), "reset_stream", None)
    if stream is None or protocol is None or reset is None:
        return
    buffered = protocol.stream_buffers.get(stream.stream_id)
    with trio.move_on_after(FLUSH_S):
        if buffered is not None and len(buffered.buffer):
            await buffered.drain()
    try:
        reset(stream.stream_id, error_code=INTERNAL_ERROR)
        await protocol._flush()
    except Exception:
        logger.debug("the stream was gone before it could be reset", exc_info=True)


def _turn_away(hub: Hub, stream: AcceptedStream) -> None:
    """Answer one connection too many without waiting for it; a TLS client is only closed."""
    refusal = Refusal(503, "overloaded", "the server holds as many clients as it may")
    hub.refused(refusal.code)
    if isinstance(stream, trio.SocketStream):
        os.write(stream.socket.fileno(), hub.readable(refusal, ()).response())
        stream.socket.close()
