"""How the guard ends a stream of hypercorn's (0.18), and learns whether it has ended.

Touches private names of hypercorn, as ``seam`` does.
"""

import logging
from contextlib import suppress
from typing import Any

import h2.exceptions
import trio
from h2.errors import ErrorCodes
from hypercorn.protocol.http_stream import ASGIHTTPState

from trioroute.proxy.serving.asgi import Send
from trioroute.proxy.serving.guarded import GuardedExchange
from trioroute.proxy.serving.hangup import Client
from trioroute.proxy.serving.streams import Streams

logger = logging.getLogger("trioroute.proxy")

FLUSH_S = 1.0


async def break_stream(send: Send) -> None:
    """End an HTTP/2 response with RST_STREAM; HTTP/1.1 needs nothing (the connection closes).

    Hypercorn forgets an HTTP/2 stream whose application failed half-way and leaves the client
    waiting for ever. Bytes already queued get FLUSH_S to leave first, unless they would end it.
    """
    stream, protocol = _inside(send)
    if protocol is None:
        return
    buffered = protocol.stream_buffers.get(stream.stream_id)
    with trio.move_on_after(FLUSH_S):
        if buffered is not None and len(buffered.buffer) and not buffered._complete:
            await buffered.drain()
    try:
        protocol.connection.reset_stream(stream.stream_id, error_code=ErrorCodes.INTERNAL_ERROR)
        await protocol._flush()
        await protocol._window_updated(stream.stream_id)  # what was buffered for it goes
    except Exception:
        logger.debug("the stream was gone before it could be reset", exc_info=True)


async def go_on(send: Send) -> None:
    """Answer ``Expect: 100-continue`` (RFC 9110 section 10.1.1) unless the body came meanwhile."""
    stream, protocol = _inside(send)
    if protocol is None:
        return
    with suppress(h2.exceptions.ProtocolError):  # the stream is gone
        if not protocol.came_whole(stream.stream_id):
            protocol.connection.send_headers(stream.stream_id, [(b":status", b"100")])
            await protocol._flush()


async def stop_sending(send: Send) -> None:
    """RST_STREAM, NO_ERROR, behind an answer that is whole (RFC 9113 section 8.1)."""
    stream, protocol = _inside(send)
    if protocol is not None and stream.state is ASGIHTTPState.CLOSED:
        protocol.stop_sending(stream.stream_id)
        await protocol._flush()


def _inside(send: Send) -> tuple[Any, Streams | None]:
    """The stream of hypercorn's behind it, and that of its connection, which may not be ours."""
    stream = getattr(send, "__self__", None)
    protocol = getattr(getattr(stream, "send", None), "__self__", None)
    return stream, protocol if isinstance(protocol, Streams) else None


def timed_by(send: Send, clock: GuardedExchange) -> None:
    """Tell ``clock`` of what leaves of this response, as long as it is there."""
    stream, protocol = _inside(send)
    if protocol is not None:
        protocol.clocks[stream.stream_id] = clock


def undelivered(send: Send) -> bool:
    """Whether the end of a response, which was sent, waits in hypercorn for the client's window."""
    stream = getattr(send, "__self__", None)
    return getattr(stream, "state", None) is ASGIHTTPState.RESPONSE


def stalled(send: Send) -> bool:
    """Whether the connection of this response is over because its client took nothing."""
    protocol = getattr(getattr(send, "__self__", None), "send", None)
    client = getattr(getattr(protocol, "__self__", None), "peer", None)
    return isinstance(client, Client) and client.stalled
