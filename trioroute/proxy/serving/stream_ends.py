"""How the guard ends a stream of hypercorn's (0.18), and learns whether it has ended.

Touches private names of hypercorn, as ``seam`` does.
"""

import logging

import trio
from h2.errors import ErrorCodes
from hypercorn.protocol.http_stream import ASGIHTTPState

from trioroute.proxy.serving.asgi import Send
from trioroute.proxy.serving.hangup import Client

logger = logging.getLogger("trioroute.proxy")

FLUSH_S = 1.0


async def break_stream(send: Send) -> None:
    """End an HTTP/2 response with RST_STREAM; HTTP/1.1 needs nothing (the connection closes).

    Hypercorn forgets an HTTP/2 stream whose application failed half-way and leaves the client
    waiting for ever. Bytes already queued get FLUSH_S to leave first, unless they would end it.
    """
    stream = getattr(send, "__self__", None)
    protocol = getattr(getattr(stream, "send", None), "__self__", None)
    reset = getattr(getattr(protocol, "connection", None), "reset_stream", None)
    if stream is None or protocol is None or reset is None:
        return
    buffered = protocol.stream_buffers.get(stream.stream_id)
    with trio.move_on_after(FLUSH_S):
        if buffered is not None and len(buffered.buffer) and not buffered._complete:
            await buffered.drain()
    try:
        reset(stream.stream_id, error_code=ErrorCodes.INTERNAL_ERROR)
        await protocol._flush()
        await protocol._window_updated(stream.stream_id)  # what was buffered for it goes
    except Exception:
        logger.debug("the stream was gone before it could be reset", exc_info=True)


def undelivered(send: Send) -> bool:
    """Whether the end of a response, which was sent, waits in hypercorn for the client's window."""
    stream = getattr(send, "__self__", None)
    return getattr(stream, "state", None) is ASGIHTTPState.RESPONSE


def stalled(send: Send) -> bool:
    """Whether the connection of this response is over because its client took nothing."""
    protocol = getattr(getattr(send, "__self__", None), "send", None)
    client = getattr(getattr(protocol, "__self__", None), "peer", None)
    return isinstance(client, Client) and client.stalled
