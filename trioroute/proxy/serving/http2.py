"""One HTTP/2 connection: hypercorn's streams over a wire of ours.

Instead of hypercorn's TCPServer, which reads 64 KiB of frames, 0.3 s of them, in one go, and in
which a request that is cancelled takes with it what others have to send.
"""

import logging
from typing import Any

import h2.exceptions
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.events import Closed, RawData, Updated
from hypercorn.trio.task_group import TaskGroup
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr
from priority.priority import TooManyStreamsError

from trioroute.proxy.serving.frames import FrameMeter
from trioroute.proxy.serving.hub import Hub
from trioroute.proxy.serving.refusing import ENDING_BYTES
from trioroute.proxy.serving.streams import Streams
from trioroute.proxy.serving.unsent import Unsent
from trioroute.proxy.serving.wire import READ_BYTES, Wire

logger = logging.getLogger("trioroute.proxy")

PEER_FAULTS = (h2.exceptions.ProtocolError, TooManyStreamsError, ValueError)
FAREWELL_S = 1.0
"""For the client to take GOAWAY and close: who closes over unread bytes resets what is under way.
And for requests to find out that their client is gone."""
CROSSING_S = 0.25
"""What an idle client is given to use the connection once more, which it may be about to do."""


class Http2Connection:
    """Serves one connection; ``first`` came already."""

    def __init__(
        self,
        hub: Hub,
        wire: Wire,
        stock: tuple[ASGIWrapper, Any, Any, Any],
        first: bytes = b"",
    ) -> None:
        """``stock``: application, config, context and state, as hypercorn's worker gives them."""
        self._hub = hub
        self._wire = wire
        self._stock = stock
        self._first = first
        self._meter = FrameMeter(trio.current_time(), hub.limits.header_bytes)
        self._unsent = Unsent(wire)
        self._reading = trio.CancelScope()
        self._idle: trio.CancelScope | None = None
        self._streams: Any = None
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Until one of the two ends it, or a cancellation: the socket is closed then."""
        self._hub.add(self._wire)
        try:
            async with TaskGroup() as group:
                nursery = self._nursery = group._nursery
                assert nursery is not None
                self._streams = self._begin(group)
                await self._serve()
                self._let_go()
                # Requests learned that their client is gone; who is left waits for nothing.
                nursery.cancel_scope.deadline = trio.current_time() + FAREWELL_S
        except* PEER_FAULTS as errors:
            self._blame_peer(errors)
        finally:
            self._cut_off()
            self._let_go()

    def _cut_off(self) -> None:
        """Unless it ended by itself, the server was cancelled over it: say so, if the kernel has
        room, and leave nothing unread that is here, for a close over that resets what was said."""
        if self._streams is None or self._unsent.dropped:
            return
        self._unsent.put(self._streams.parting.cut_off(list(self._streams.streams)))
        self._wire.finish_writing()
        left = ENDING_BYTES
        while left > 0 and (data := self._wire.read_now()):
            left -= len(data)

    def _blame_peer(self, error: BaseException) -> None:
        """Raised by hypercorn for what a peer sent: its fault, and no trace is wanted."""
        self._hub.refused("invalid_request")
        logger.debug("a connection sent what is no HTTP/2", exc_info=error)

    def _let_go(self) -> None:
        self._wire.scope = None
        self._unsent.end()
        self._hub.remove(self._wire)
        self._wire.close()

    def _begin(self, group: TaskGroup) -> Streams:
        app, config, context, state = self._stock
        sock = self._wire.stream.socket
        return Streams(
            app,
            config,
            context,
            group,
            ConnectionState(state),
            self._wire.scheme == "https",
            parse_socket_addr(sock.family, sock.getpeername()),
            parse_socket_addr(sock.family, sock.getsockname()),
            self._send,
            hub=self._hub,
            written=self._unsent.gone,
            peer=self._wire.client,
        )

    async def _serve(self) -> None:
        """The wire's scope is cancelled by a client that hangs up, or takes nothing for long."""
        with trio.CancelScope() as lost:
            self._wire.scope = lost
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._unsent.run)
                with self._reading:
                    await self._streams.initiate()
                    self._await_requests()
                    await self._read()
                await self._tell_requests()
                await self._say_farewell()
                nursery.cancel_scope.cancel()
        if lost.cancelled_caught:
            await self._tell_requests()

    async def _tell_requests(self) -> None:
        """Nobody takes an answer any more. Shielded: a client that is lost meanwhile would leave
        some untold, and their requests ended as by a shutdown."""
        with trio.move_on_after(FAREWELL_S, shield=True):
            await self._streams.handle(Closed())

    async def _send(self, event: object) -> None:
        """What hypercorn's protocol has to say; never waits."""
        if isinstance(event, RawData):
            self._meter.sent(event.data)
            self._unsent.put(event.data)
        elif isinstance(event, Closed):
            self._reading.cancel()
        elif isinstance(event, Updated):
            if self._idle is not None:
                self._idle.cancel()
            if event.idle:
                self._await_requests()

    async def _read(self) -> None:
        try:
            while data := self._first or await self._wire.read(READ_BYTES):
                self._first = b""
                self._meter.pass_time(trio.current_time())
                for step in self._meter.steps(data):
                    await self._streams.handle(RawData(step))
                    if self._meter.error:
                        await self._send_away(self._meter.error)
                        return
                    await trio.lowlevel.checkpoint()
            self._unsent.drop()  # it has gone
        except PEER_FAULTS as error:
            self._blame_peer(error)

    async def _send_away(self, error: int) -> None:
        self._hub.refused("invalid_request")
        logger.debug("an HTTP/2 connection sent more than its requests need: error %d", error)
        await self._streams.parting.leave(error)

    def _await_requests(self) -> None:
        """Close the connection when none comes for long, and at a shutdown; ask the client to leave
        when the server drains and nothing is on its way."""
        assert self._nursery is not None
        self._idle = trio.CancelScope()
        self._nursery.start_soon(self._close_idle, self._idle)

    async def _close_idle(self, idle: trio.CancelScope) -> None:
        _, config, context, _ = self._stock
        with idle:
            with trio.move_on_after(config.keep_alive_timeout):
                await self._hub.drain_begun.wait()
                with trio.move_on_after(CROSSING_S):
                    await context.terminated.wait()
                if not context.terminated.is_set():
                    await self._streams.parting.ask()
                    await context.terminated.wait()
            if not self._streams.streams:  # none has just begun
                await self._streams.parting.leave()
                self._reading.cancel()

    async def _say_farewell(self) -> None:
        """What is on its way goes first, for who is still there to take it."""
        if self._unsent.dropped:
            return
        await self._unsent.gone()
        self._wire.finish_writing()
        with trio.move_on_after(FAREWELL_S):
            while await self._wire.read(READ_BYTES):
                pass
