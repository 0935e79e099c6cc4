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
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any

import h2.exceptions
import h11
import hypercorn.trio.run
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.events import Closed, RawData
from priority.priority import TooManyStreamsError

from trioroute.proxy.serving.asgi import ASGIApp, Send
from trioroute.proxy.serving.frames import FrameMeter
from trioroute.proxy.serving.hub import Hub
from trioroute.proxy.serving.lean import LeanConnection
from trioroute.proxy.serving.refusal import Refusal

logger = logging.getLogger("trioroute.proxy")

WorkerServe = Callable[..., Awaitable[None]]
AcceptedStream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
FLUSH_S = 1.0
INTERNAL_ERROR = 2
ENHANCE_YOUR_CALM = 11
"""RFC 9113 section 7."""
PEER_FAULTS = (
    h11.ProtocolError,
    h2.exceptions.ProtocolError,
    TooManyStreamsError,
    ValueError,
)
READ_BYTES = 64 * 1024


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
                await _metered(hub, stock(stock_app, config, context, state, taken))
            except* PEER_FAULTS as errors:
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


def _metered(hub: Hub, server: Any) -> Awaitable[None]:  # noqa: ANN401 - hypercorn's class, see above
    """Hypercorn's connection, reading HTTP/2 in steps and no more of it than is of use."""
    meter = FrameMeter(trio.current_time())
    send = server.protocol_send

    async def count_sent(event: object) -> None:
        if isinstance(event, RawData):
            meter.sent(event.data)
        await send(event)

    async def read_data() -> None:
        if server.protocol.ssl and hasattr(server.protocol.protocol, "_check_protocol"):
            server.protocol.protocol._check_protocol = _stay
            await stock_read_data()
        else:
            await _read_frames(hub, server, meter)

    stock_read_data = server._read_data
    server.protocol_send, server._read_data = count_sent, read_data
    connection: Awaitable[None] = server
    return connection


async def _stay(request: h11.Request) -> None:
    """HTTP/1.1 over TLS stays what it is: HTTP/2 is agreed on in the handshake (RFC 9113, 3.2)."""
    if request.method == b"PRI":
        raise h11.RemoteProtocolError("HTTP/2 over TLS without ALPN")


async def _read_frames(hub: Hub, server: Any, meter: FrameMeter) -> None:  # noqa: ANN401 - as above
    """Instead of hypercorn's reading, which takes 64 KiB of frames, 0.3 s of them, in one go."""
    ended = False
    while not ended:
        try:
            data = bytes(await server.stream.receive_some(READ_BYTES))
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            break
        if not data:
            break
        meter.pass_time(trio.current_time())
        for step in meter.steps(data):
            await server.protocol.handle(RawData(step))
            ended = getattr(server.protocol.protocol, "closed", False)
            if ended or meter.overdrawn:
                break
            await trio.lowlevel.checkpoint()
        if meter.overdrawn and not ended:
            await _calm_down(hub, server.protocol.protocol)
            ended = True
    await server.protocol.handle(Closed())


async def _calm_down(hub: Hub, protocol: Any) -> None:  # noqa: ANN401 - as above
    hub.refused("invalid_request")
    logger.debug("an HTTP/2 connection sent more frames than its requests need")
    with suppress(h2.exceptions.ProtocolError):  # it is closed already
        protocol.connection.close_connection(error_code=ENHANCE_YOUR_CALM)
        await protocol._flush()


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
        and {"_read_data", "protocol_send"} <= set(stock.run.__code__.co_names)
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
