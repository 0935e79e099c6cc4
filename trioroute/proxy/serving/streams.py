"""The streams of one HTTP/2 connection: hypercorn's (0.18), with ends that are never lost.

Touches private names of hypercorn, as ``seam`` does.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet, WeakValueDictionary

import attrs
import h2.exceptions
import trio
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    PingAckReceived,
    PriorityUpdated,
    RequestReceived,
    StreamEnded,
    StreamReset,
)
from hypercorn.events import Closed, Updated
from hypercorn.protocol.events import EndBody, EndData, Response, StreamClosed
from hypercorn.protocol.h2 import BUFFER_LOW_WATER, H2Protocol, StreamBuffer
from priority.priority import MissingStreamError

from trioroute.proxy.serving import peer_settings, refusing
from trioroute.proxy.serving.guarded import GuardedExchange
from trioroute.proxy.serving.hangup import Client
from trioroute.proxy.serving.http2_state import ClientLeaves, Http2State, Malformed
from trioroute.proxy.serving.hub import Headers, Hub
from trioroute.proxy.serving.parser import KnownHead
from trioroute.proxy.serving.parting import Parting
from trioroute.proxy.serving.refusal import NO_WEBSOCKET, Refusal, invalid

FRAME_BYTES = 64 * 1024
"""Of DATA at most, whatever the client would take: other streams get their turn in between."""
TELL_S = 1.0
"""For a request to be told that its client is gone: it listens, but while it is refused."""


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

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - hypercorn's own arguments
        hub: Hub,
        written: Callable[[], Awaitable[None]],
        peer: Client,
    ) -> None:
        super().__init__(*args)
        self.connection = Http2State(self.connection.local_settings)
        peer_settings.bound(self.connection)
        self._hub = hub
        self.peer = peer
        """The client of all these streams, for who ends with the connection."""
        self._written = written
        self.parting = Parting(self.connection, self.send)
        self._in_step = False
        """Requests may be here that are not begun yet."""
        self._cut: WeakSet[Any] = WeakSet()
        """Buffers whose end did not leave."""
        self.clocks: WeakValueDictionary[int, GuardedExchange] = WeakValueDictionary()
        """Of the answers that run."""
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
        elif not self.parting.done:
            await super().handle(event)

    async def _close_stream(self, stream_id: int) -> None:
        """As hypercorn, which forgets the stream and then waits to tell its request: whoever is
        cancelled in that wait, as by the end of the connection, would leave it untold for ever."""
        with trio.move_on_after(TELL_S, shield=True):
            await super()._close_stream(stream_id)

    async def _handle_events(self, events: Any) -> None:  # noqa: ANN401 - hypercorn's
        """As hypercorn, which falls over the rest of a body that was refused before its end, and
        over heads. Priorities are passed over (RFC 9113 section 5.3.2)."""
        self._in_step = True
        try:
            await self._take(events)
        finally:
            self._in_step = False
        await self._leave_if_idle()
        await self._flush()

    async def _take(self, events: Any) -> None:  # noqa: ANN401 - hypercorn's
        for event in events:
            if isinstance(event, RequestReceived):
                await self._begin(event)
            elif isinstance(event, DataReceived) and event.stream_id not in self.streams:
                with suppress(h2.exceptions.ProtocolError):
                    self._pass_over(event.stream_id, event.flow_controlled_length)
            elif isinstance(event, StreamReset | Malformed):
                await self._reset_by_client(event)
            elif isinstance(event, ClientLeaves):
                self.parting.agreed = True
            elif isinstance(event, PingAckReceived):
                if self.parting.answered(event.ping_data):
                    self.parting.agreed = True
            elif not isinstance(event, PriorityUpdated):
                if isinstance(event, StreamEnded):
                    self._rests.pop(event.stream_id, None)
                await super()._handle_events([event])

    async def _begin(self, request: RequestReceived) -> None:
        """Where hypercorn would reset what comes behind a shutdown without a word that it may be
        sent elsewhere."""
        stream_id = request.stream_id
        if self.parting.done:
            return
        self.parting.begun = stream_id
        if self.context.terminated.is_set() or self._too_many(stream_id):
            with suppress(h2.exceptions.ProtocolError):
                self.connection.reset_stream(stream_id, error_code=ErrorCodes.REFUSED_STREAM)
            return
        refusal = unreadable(request.headers)
        if refusal is not None:
            with suppress(h2.exceptions.ProtocolError):
                self._turn_down(stream_id, refusal, request.headers)
            return
        try:
            await super()._handle_events([request])
        except Exception as error:
            self._hub.tell(f"an HTTP/2 request failed to begin: {type(error).__name__}")
            self.streams.pop(stream_id, None)
            self._forget(stream_id)
            with suppress(h2.exceptions.ProtocolError):
                self.connection.reset_stream(stream_id, error_code=ErrorCodes.INTERNAL_ERROR)
        if self._hub.draining and len(self.streams) > 1:
            await self.parting.ask()

    def _too_many(self, stream_id: int) -> bool:
        """Whether this one is over the limit, whatever came in one go with it."""
        streams, most = self.connection.streams, self.config.h2_max_concurrent_streams
        if len(streams) <= most:
            return False
        return sum(one.open for number, one in streams.items() if number <= stream_id) > most

    def _turn_down(self, stream_id: int, refusal: Refusal, head: Headers) -> None:
        """Answer a request that gets no further; what still comes of it is passed over."""
        self._hub.refused(refusal.code)
        path = next((value for name, value in head if name == b":path"), b"")
        told = self._hub.addressed(refusal, KnownHead(path.partition(b"?")[0], head))
        date = (b"date", self._hub.date_line[6:].strip())
        headers = [(b":status", b"%d" % told.status), *told.headers(), date]
        self.connection.send_headers(stream_id, headers)
        try:
            self.connection.send_data(stream_id, told.body(), end_stream=True)
        except h2.exceptions.FlowControlError:
            self.connection.reset_stream(stream_id, error_code=ErrorCodes.PROTOCOL_ERROR)

    async def _reset_by_client(self, event: StreamReset | Malformed) -> None:
        if isinstance(event, Malformed):
            self._hub.refused("invalid_request")
        self._rests.pop(event.stream_id, None)
        await self._close_stream(event.stream_id)
        await self._window_updated(event.stream_id)
        if not self.streams:
            await self.send(Updated(idle=True))

    async def _leave_if_idle(self) -> None:
        if self.parting.agreed and not (self._in_step or self.streams or self.closed):
            await self.parting.leave()
            await self.send(Closed())

    def _pass_over(self, stream_id: int, size: int) -> None:
        """Take more of a body whose request was answered, for a client that reads no answer before
        it has sent all; whoever sends too much is asked to stop, without an error.

        RFC 9113, 8.1: RST_STREAM with NO_ERROR behind the answer, which the client keeps.
        """
        self.connection.acknowledge_received_data(size, stream_id)
        rest = self._rests.setdefault(stream_id, _Rest())
        rest.left -= size
        if rest.left < 0 or trio.current_time() > rest.until:
            self.stop_sending(stream_id)

    def stop_sending(self, stream_id: int) -> None:
        """Nothing more is taken of a request whose answer is whole."""
        self._rests.pop(stream_id, None)
        stream = self.connection.streams.get(stream_id)
        if stream is not None and stream.open:
            with suppress(h2.exceptions.ProtocolError):  # the connection is over
                self.connection.reset_stream(stream_id, error_code=ErrorCodes.NO_ERROR)

    def came_whole(self, stream_id: int) -> bool:
        """Whether nothing more comes of this request."""
        return self.parting.connection.came_whole(stream_id)

    async def stream_send(self, event: Any) -> None:  # noqa: ANN401 - hypercorn's
        """As hypercorn, but for the end of a body: it returns when END_STREAM is on its way, where
        hypercorn's may return before, and lose it to the GOAWAY of a shutdown. That one comes from
        whoever finds the connection idle, and not from here."""
        unended = isinstance(event, StreamClosed) and event.stream_id in self.stream_buffers
        if isinstance(event, Response) or unended:
            # Hypercorn answers for an application that was cancelled, with an empty 500, and takes
            # a request for ended whose answer is not.
            await trio.lowlevel.checkpoint_if_cancelled()
        if isinstance(event, EndBody | EndData):
            buffer = self.stream_buffers.get(event.stream_id)
            if buffer is not None:
                await buffer._is_empty.clear()
            await super().stream_send(event)
            if buffer in self._cut:
                self._cut.discard(buffer)
                await trio.lowlevel.checkpoint()  # who watches it cancels a request cut off so
        elif isinstance(event, StreamClosed):
            await self._close_stream(event.stream_id)
            await self.send(Updated(idle=not self.streams))
            await self._leave_if_idle()
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
            if (clock := self.clocks.get(stream_id)) is not None:
                clock.took(len(data), shut=len(buffer.buffer) > 0 and len(data) >= window)
            if data:
                self.connection.send_data(stream_id, data, end_stream=ends)
            elif ends:
                self.connection.end_stream(stream_id)  # needs no window
            else:
                self.priority.block(stream_id)
            if ends:
                self._forget(stream_id)
                if self._hub.draining and len(self.streams) == 1:
                    await self.parting.ask()
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


def unreadable(head: Headers) -> Refusal | None:
    """Why hypercorn could not take this head: it decodes method and path, and needs both; and of
    CONNECT it would make a websocket."""
    said = dict(head)
    if b":protocol" in said:
        return NO_WEBSOCKET
    if not said.get(b":method", b"").isascii() or not said.get(b":path", b"").isascii():
        return invalid("the request target holds a space, a control or a character outside ASCII")
    if b":path" not in said or said[b":method"].upper() == b"CONNECT":
        return invalid("CONNECT is not served here")
    return None


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
