"""The streams of one HTTP/2 connection: hypercorn's (0.18), with ends that are never lost.

Touches private names of hypercorn, as ``seam`` does.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import attrs
import h2.exceptions
import trio
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset
from hypercorn.events import Closed
from hypercorn.protocol.events import EndBody, EndData, Response
from hypercorn.protocol.h2 import BUFFER_LOW_WATER, H2Protocol, StreamBuffer
from hypercorn.protocol.http_stream import ASGIHTTPState
from priority.priority import MissingStreamError

from trioroute.proxy.serving import peer_settings, refusing
from trioroute.proxy.serving.asgi import Send

logger = logging.getLogger("trioroute.proxy")

FRAME_BYTES = 64 * 1024
"""Of DATA at most, whatever the client would take: other streams get their turn in between."""
FLUSH_S = 1.0
TELL_S = 1.0
"""For a request to be told that its client is gone: it listens, but while it is refused."""
NO_ERROR = 0
INTERNAL_ERROR = 2
REFUSED_STREAM = 7
"""RFC 9113 section 7."""


@attrs.define(slots=True)
class _Rest:
    """What may come of a body behind the answer, as over HTTP/1.1 (``refusing.linger``)."""

    left: int = attrs.field(factory=lambda: refusing.LINGER_BYTES)
    until: float = attrs.field(factory=lambda: trio.current_time() + refusing.LINGER_S)


class Streams(H2Protocol):
    """``send`` keeps the order of what it is given and never loses any of it, cancelled or not: it
    was taken out of h2's buffer, where the header table of the connection has moved on.

    ``written`` waits until all of it has left: DATA waits for that, nothing else does.
    """

    def __init__(self, *args: Any, written: Callable[[], Awaitable[None]], **named: Any) -> None:  # noqa: ANN401 - hypercorn's own arguments
        super().__init__(*args, **named)
        peer_settings.bound(self.connection)
        self._written = written
        self._cut: WeakSet[Any] = WeakSet()
        """Buffers whose end did not leave."""
        self._rests: dict[int, _Rest] = {}
        """Of requests that were answered before their end."""

    async def handle(self, event: Any) -> None:  # noqa: ANN401 - hypercorn's
        """As hypercorn, but for the end: no request that takes nothing keeps it from others."""
        if isinstance(event, Closed):
            self.closed = True
            async with trio.open_nursery() as nursery:
                for stream_id in list(self.streams):
                    nursery.start_soon(self._close_stream, stream_id)
            await self.has_data.set()
        else:
            await super().handle(event)

    async def _close_stream(self, stream_id: int) -> None:
        """As hypercorn, which forgets the stream and then waits to tell its request: whoever is
        cancelled in that wait, as by the end of the connection, would leave it untold for ever."""
        with trio.move_on_after(TELL_S, shield=True):
            await super()._close_stream(stream_id)

    async def _handle_events(self, events: Any) -> None:  # noqa: ANN401 - hypercorn's
        """As hypercorn, which falls over the rest of a body that was refused before its end, and
        resets what comes behind a shutdown without a word that it may be sent elsewhere."""
        for event in events:
            if isinstance(event, RequestReceived) and self.context.terminated.is_set():
                with suppress(h2.exceptions.ProtocolError):
                    self.connection.reset_stream(event.stream_id, error_code=REFUSED_STREAM)
            elif isinstance(event, DataReceived) and event.stream_id not in self.streams:
                with suppress(h2.exceptions.ProtocolError):
                    self._pass_over(event.stream_id, event.flow_controlled_length)
            else:
                if isinstance(event, StreamEnded | StreamReset):
                    self._rests.pop(event.stream_id, None)
                await super()._handle_events([event])
        await self._flush()

    def _pass_over(self, stream_id: int, size: int) -> None:
        """Take more of a body whose request was answered, for a client that reads no answer before
        it has sent all; whoever sends too much is asked to stop, without an error.

        RFC 9113, 8.1: RST_STREAM with NO_ERROR behind the answer, which the client keeps.
        """
        self.connection.acknowledge_received_data(size, stream_id)
        rest = self._rests.setdefault(stream_id, _Rest())
        rest.left -= size
        if rest.left < 0 or trio.current_time() > rest.until:
            del self._rests[stream_id]
            self.connection.reset_stream(stream_id, error_code=NO_ERROR)

    async def stream_send(self, event: Any) -> None:  # noqa: ANN401 - hypercorn's
        """As hypercorn, but for the end of a body: it returns when END_STREAM is on its way, where
        hypercorn's may return before, and lose it to the GOAWAY of a shutdown."""
        if isinstance(event, Response):
            # Hypercorn answers for an application that was cancelled, with an empty 500.
            await trio.lowlevel.checkpoint_if_cancelled()
        if isinstance(event, EndBody | EndData):
            buffer = self.stream_buffers.get(event.stream_id)
            if buffer is not None:
                await buffer._is_empty.clear()
            await super().stream_send(event)
            if buffer in self._cut:
                self._cut.discard(buffer)
                await trio.lowlevel.checkpoint()  # who watches it cancels a request cut off so
        else:
            await super().stream_send(event)

    async def _send_data(self, stream_id: int) -> None:
        """As hypercorn's, with END_STREAM in the last frame and not behind a wait for it."""
        try:
            window = self.connection.local_flow_control_window(stream_id)
            most = min(window, self.connection.max_outbound_frame_size, FRAME_BYTES)
            buffer = self.stream_buffers[stream_id]
            data = await _pop(buffer, max(0, most))
            ends = buffer.complete
            if data:
                self.connection.send_data(stream_id, data, end_stream=ends)
            elif ends:
                self.connection.end_stream(stream_id)  # needs no window
            else:
                self.priority.block(stream_id)
            if ends:
                self._forget(stream_id)
        except (KeyError, h2.exceptions.ProtocolError):
            # The stream or the connection was closed meanwhile.
            closed = self.stream_buffers.get(stream_id)
            self._forget(stream_id)
            if closed is not None:
                self._cut.add(closed)
                await closed.close()
        else:
            await self._flush()
            await self._written()

    def _forget(self, stream_id: int) -> None:
        self.stream_buffers.pop(stream_id, None)
        with suppress(MissingStreamError):
            self.priority.remove_stream(stream_id)


async def _pop(buffer: StreamBuffer, most: int) -> bytes:
    """As the buffer's own, which lets the application go on whenever little was taken out: for a
    client that opens no window, or a few bytes of it, whole answers would pile up."""
    data = bytes(buffer.buffer[:most])
    del buffer.buffer[:most]
    if len(buffer.buffer) < BUFFER_LOW_WATER:
        await buffer._paused.set()
    if not buffer.buffer:
        await buffer._is_empty.set()
    return data


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
        reset(stream.stream_id, error_code=INTERNAL_ERROR)
        await protocol._flush()
        await protocol._window_updated(stream.stream_id)  # what was buffered for it goes
    except Exception:
        logger.debug("the stream was gone before it could be reset", exc_info=True)


def undelivered(send: Send) -> bool:
    """Whether the end of a response, which was sent, waits in hypercorn for the client's window."""
    stream = getattr(send, "__self__", None)
    return getattr(stream, "state", None) is ASGIHTTPState.RESPONSE
