"""Touches private names of hypercorn (0.18), as ``streams`` and ``stream_ends`` do and no other.

`hypercorn.trio.run.worker_serve` looks up its per-connection class as the global `TCPServer`. We
run a copy of that function whose `TCPServer` is ours: hypercorn keeps listening, the streams of
HTTP/2, lifespan and graceful shutdown, and other users of hypercorn in the same process see no
change (assigning to the module's attribute would have changed it for all of them). When the name
has moved, the server runs on unchanged hypercorn, slower, and says so.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable
from types import FunctionType, ModuleType

import hypercorn.trio.run
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.protocol.h2 import H2Protocol

from trioroute.proxy.serving.asgi import ASGIApp
from trioroute.proxy.serving.http2 import Http2Connection
from trioroute.proxy.serving.hub import Hub
from trioroute.proxy.serving.last_listener import trio_with_last_listeners
from trioroute.proxy.serving.lean import LeanConnection
from trioroute.proxy.serving.overflow import Overflow
from trioroute.proxy.serving.parser import TOKEN_BYTE
from trioroute.proxy.serving.refusal import PLAIN_ON_TLS
from trioroute.proxy.serving.refusing import refuse
from trioroute.proxy.serving.secure import HANDSHAKE, HANDSHAKE_S, SecureWire
from trioroute.proxy.serving.tls import Renewable
from trioroute.proxy.serving.wire import ClientGone, Wire

logger = logging.getLogger("trioroute.proxy")

WorkerServe = Callable[..., Awaitable[None]]


def lean_worker(hub: Hub, app: ASGIApp, tls: Renewable | None = None) -> WorkerServe | None:
    """Hypercorn's worker with lean connections for HTTP/1.1, or None when the seam has moved.

    Its sockets are plain ones to it, with ``tls`` too: hypercorn would wrap them in Trio's
    SSLStream before anybody could look at the first byte.
    """
    module = hypercorn.trio.run
    if not _is_in_place(module):
        return None
    serve = module.worker_serve
    overflow = Overflow(hub, tls)

    async def connect(
        stock_app: ASGIWrapper,
        config: object,
        context: object,
        state: object,
        stream: trio.SocketStream,
    ) -> None:
        stock = (stock_app, config, context, state)

        async def serve_http2(wire: Wire, data: bytes = b"") -> None:
            await Http2Connection(hub, wire, stock, data).run()

        try:
            if hub.full:
                await overflow.turn_away(stream)
            elif tls is not None:
                await _serve_secure(hub, app, stream, tls, serve_http2)
            else:
                wire = Wire(stream, hub.limits.client_stall_ms)
                await LeanConnection(hub, app, wire, serve_http2).run()
        except* OSError:
            pass  # the client was gone before its address could be read
        except* Exception as errors:
            # One connection never ends the process, whatever a peer makes a protocol class raise.
            logger.error("a connection failed", exc_info=errors)

    return _calling(connect, serve, module, hub.limits.backlog)


async def _serve_secure(
    hub: Hub,
    app: ASGIApp,
    stream: trio.SocketStream,
    tls: Renewable,
    serve_http2: Callable[[Wire], Awaitable[None]],
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
    if wire.alpn == "h2":
        await serve_http2(wire)
    else:
        await LeanConnection(hub, app, wire).run()


async def _agreed(hub: Hub, wire: SecureWire) -> bool:
    """Shake hands. False: the client speaks something else, and was told so if that is HTTP."""
    wire.deadline = hub.deadline(HANDSHAKE_S)
    hub.set_idle(wire, True, unused=True)
    data = await wire.read()
    hub.set_idle(wire, False)
    until = wire.deadline
    if data[:1] != HANDSHAKE:
        if TOKEN_BYTE.match(data) is not None:
            await refuse(hub, wire, PLAIN_ON_TLS, data)
        return False
    await wire.shake(data, until)
    return True


def _calling(connect: object, serve: WorkerServe, module: ModuleType, backlog: int) -> WorkerServe:
    """A copy of hypercorn's worker that finds ``connect`` where it looks up its own class, and
    listeners that serve who is still in line when they close."""
    assert isinstance(serve, FunctionType)
    names = {"TCPServer": connect, "trio": trio_with_last_listeners(backlog)}
    copied = FunctionType(
        serve.__code__,
        {**vars(module), **names},
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
        and {"_send_data", "_flush", "stream_send", "_close_stream"} <= set(vars(H2Protocol))
    )
