"""Serves an ASGI application over HTTP: hypercorn's worker, our sockets, lean connections."""

import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import hypercorn.trio
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config, Sockets

from trioroute.proxy.serving import stream_ends
from trioroute.proxy.serving.asgi import ASGIApp
from trioroute.proxy.serving.guard import GuardedApp
from trioroute.proxy.serving.hub import Door, Headers, Hub, RefusalBody
from trioroute.proxy.serving.limits import ServerLimits
from trioroute.proxy.serving.seam import lean_worker
from trioroute.proxy.serving.sockets import listen_on
from trioroute.proxy.serving.tls import Renewable

logger = logging.getLogger("trioroute.proxy")

Worker = Callable[..., Awaitable[None]]
TLS_HANDSHAKE_S = 10.0
NO_LIMIT = 2**31


async def serve_http(
    app: ASGIApp,
    listen: list[str],
    limits: ServerLimits,
    *,
    shutdown: trio.Event,
    drain: trio.Event | None = None,
    tls: Renewable | None = None,
    on_refusal: Callable[[str], None] | None = None,
    door: Door | None = None,
    refusal_headers: Callable[[Headers], Headers] | None = None,
    refusal_body: RefusalBody | None = None,
    task_status: trio.TaskStatus[list[tuple[str, int]]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `shutdown` is set and the requests in flight have ended.

    Start it with `nursery.start`: that returns the bound (host, port) of each listen address.
    The application gets http scopes only, with the whole body in the first message, and is
    cancelled when its client is gone (hangup.client_gone tells why). After `shutdown` nothing is
    accepted, idle connections close, and after `limits.graceful_timeout_s` the rest is cancelled.
    From `drain` on, if it is given, all are still served, but none is kept open after a response.
    With `tls` all addresses speak TLS, HTTP/1.1 and HTTP/2.
    `on_refusal(code)` is called for each request that never reached the application. `door` turns
    requests away by path and headers, before their body is read. `refusal_headers` gives
    further headers of a refusal by those of its request, as far as these could be read;
    `refusal_body` gives its body by the path, empty for the usual one.

    Raises ValueError or OSError naming the listen address that is unusable.
    """
    config = _config(limits, tls)
    hub = Hub(limits, on_refusal, door, refusal_headers, refusal_body)
    guarded = GuardedApp(hub, app, stream_ends)
    sockets = await listen_on(listen, limits)
    bound = [sock.getsockname()[:2] for sock in sockets]
    serve = _worker(hub, app, guarded, config, sockets)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.watch.run)
        nursery.start_soon(hub.run)
        nursery.start_soon(hub.drain_after, drain, shutdown)
        await _run_worker(serve, shutdown, bound, task_status)
        nursery.cancel_scope.cancel()


def _worker(
    hub: Hub, app: ASGIApp, guarded: GuardedApp, config: "_Config", sockets: list[socket.socket]
) -> Worker:
    """Hypercorn's worker with lean connections, or unchanged hypercorn where that has moved."""
    # Hypercorn types each kind of scope and message; an application here sees mappings.
    stock = cast("Any", guarded)
    worker = lean_worker(hub, app, config.tls)
    if worker is not None:
        for sock in sockets:
            sock.listen(hub.limits.backlog)
        return partial(worker, ASGIWrapper(stock), config, sockets=Sockets([], sockets, []))
    logger.warning(
        "hypercorn's TCPServer is not where it was: serving on its own connections, which "
        "cost about ten times the CPU and bound no HTTP/2 frames; install the hypercorn version "
        "pyproject.toml names"
    )
    config.bind = [f"fd://{sock.detach()}" for sock in sockets]
    return partial(hypercorn.trio.serve, stock, config, mode="asgi")


async def _run_worker(
    serve: Worker,
    shutdown: trio.Event,
    bound: list[tuple[str, int]],
    task_status: trio.TaskStatus[list[tuple[str, int]]],
) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, shutdown_trigger=shutdown.wait))
        task_status.started(bound)


class _Config(Config):
    """Hypercorn's, with a TLS context of our own instead of one that it makes of two files."""

    tls: Renewable | None = None

    @property
    def ssl_enabled(self) -> bool:
        return self.tls is not None

    def create_ssl_context(self) -> Any:  # noqa: ANN401 - hypercorn and Trio use its wrap_bio alone
        return self.tls


def _config(limits: ServerLimits, tls: Renewable | None) -> _Config:
    config = _Config()
    config.tls = tls
    config.errorlog = logger
    config.include_server_header = False
    config.include_date_header = False
    config.backlog = limits.backlog
    config.graceful_timeout = limits.graceful_timeout_s
    config.keep_alive_timeout = limits.keep_alive_s
    config.keep_alive_max_requests = NO_LIMIT
    config.h11_max_incomplete_size = limits.header_bytes
    config.h2_max_header_list_size = limits.header_bytes
    config.ssl_handshake_timeout = TLS_HANDSHAKE_S
    return config
