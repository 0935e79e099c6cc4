"""The only place that touches private names of hypercorn (0.18).

`hypercorn.trio.run.worker_serve` looks up its per-connection class as the global `TCPServer`. We
run a copy of that function whose `TCPServer` is ours: hypercorn keeps sockets, TLS, lifespan and
graceful shutdown, and other users of hypercorn in the same process see no change (assigning to the
module's attribute would have changed it for all of them). When the name has moved, the server
runs on unchanged hypercorn, slower, and says so.
"""

import inspect
import logging
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
from hypercorn.protocol.http_stream import ASGIHTTPState
from priority.priority import TooManyStreamsError

from trioroute.proxy.serving.asgi import ASGIApp, Send
from trioroute.proxy.serving.frames import FrameMeter
from trioroute.proxy.serving.hub import Hub
from trioroute.proxy.serving.lean import LeanConnection
from trioroute.proxy.serving.parser import TOKEN_BYTE
from trioroute.proxy.serving.refusal import PLAIN_ON_TLS
from trioroute.proxy.serving.refusing import refuse, turn_away
from trioroute.proxy.serving.secure import HANDSHAKE, HANDSHAKE_S, SecureStream, SecureWire
from trioroute.proxy.serving.tls import Renewable
from trioroute.proxy.serving.wire import ClientGone, Wire

logger = logging.getLogger("trioroute.proxy")

WorkerServe = Callable[..., Awaitable[None]]
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


def lean_worker(hub: Hub, app: ASGIApp, tls: Renewable | None = None) -> WorkerServe | None:
    """Hypercorn's worker with lean connections for HTTP/1.1, or None when the seam has moved.

    Its sockets are plain ones to it, with ``tls`` too: hypercorn would wrap them in Trio's
    SSLStream before anybody could look at the first byte.
    """
    module = hypercorn.trio.run
    if not _is_in_place(module):
        return None
    serve, stock = module.worker_serve, vars(module)["TCPServer"]

    async def connect(
        stock_app: ASGIWrapper,
        config: object,
        context: object,
        state: object,
        stream: trio.SocketStream,
    ) -> None:
        async def serve_stock(taken: ReplayStream | SecureStream) -> None:
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
                turn_away(hub, stream, secure=tls is not None)
            elif tls is not None:
                await _serve_secure(hub, app, stream, tls, serve_stock)
            else:
                wire = Wire(stream, hub.limits.client_stall_ms)
                await LeanConnection(hub, app, wire, hand_over).run()
        except* OSError:
            pass  # the client was gone before its address could be read
        except* Exception as errors:
            # One connection never ends the process, whatever a peer makes a protocol class raise.
            logger.error("a connection failed", exc_info=errors)

    return _calling(connect, serve, module)


async def _serve_secure(
    hub: Hub,
    app: ASGIApp,
    stream: trio.SocketStream,
    tls: Renewable,
    serve_stock: Callable[[SecureStream], Awaitable[None]],
) -> None:
    wire = SecureWire(stream, hub.limits.client_stall_ms, tls)
    agreed = False
    hub.add(wire)
    try:
        agreed = await _agreed(hub, wire)
    except (ClientGone, trio.ClosedResourceError):
        pass
    finally:
        hub.remove(wire)
        if not agreed:
            wire.close()
    if not agreed:
        return
    if wire.records.alpn == "h2":
        await serve_stock(SecureStream(stream, wire.records))
    else:
        await LeanConnection(hub, app, wire).run()


async def _agreed(hub: Hub, wire: SecureWire) -> bool:
    """Shake hands. False: the client speaks something else, and was told so if that is HTTP."""
    until = wire.deadline = hub.deadline(HANDSHAKE_S)
    hub.set_idle(wire, True)
    data = await wire.read()
    hub.set_idle(wire, False)
    if data[:1] != HANDSHAKE:
        if TOKEN_BYTE.match(data) is not None:
            await refuse(hub, wire, PLAIN_ON_TLS, data)
        return False
    await wire.shake(data, until)
    return True


def _metered(hub: Hub, server: Any) -> Awaitable[None]:  # noqa: ANN401 - hypercorn's class, see above
    """Hypercorn's connection, reading HTTP/2 in steps and no more of it than is of use."""
    meter = FrameMeter(trio.current_time())
    send = server.protocol_send

    async def count_sent(event: object) -> None:
        if isinstance(event, RawData):
            meter.sent(event.data)
        await send(event)

    async def read_data() -> None:
        await _read_frames(hub, server, meter)

    server.protocol_send, server._read_data = count_sent, read_data
    connection: Awaitable[None] = server
    return connection


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


def undelivered(send: Send) -> bool:
    """Whether the end of a response, which was sent, waits in hypercorn for the client's window."""
    stream = getattr(send, "__self__", None)
    return getattr(stream, "state", None) is ASGIHTTPState.RESPONSE
