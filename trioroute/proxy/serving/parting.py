"""How the server leaves an HTTP/2 connection in order, by GOAWAY (RFC 9113 section 6.8)."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

import attrs
import h2.exceptions
from h2.errors import ErrorCodes
from hypercorn.events import RawData

from trioroute.proxy.serving.http2_state import Http2State, asks_to_leave

FAREWELL = b"farewell"
"""In a PING."""


@attrs.define
class Parting:
    """What client and server told each other about the end of one connection."""

    connection: Http2State
    send: Callable[[RawData], Awaitable[None]]
    begun: int = 0
    """The last request that was begun, or answered at once. Not what h2 has read: of that, some may
    wait behind a frame that ends the connection, and a client gives up for good what a GOAWAY
    counts as taken."""
    asked: bool = False
    """The client, to begin nothing more."""
    agreed: bool = False
    """The client begins nothing more."""
    done: bool = False
    """It was told that nothing more is taken."""

    async def ask(self) -> None:
        """Have the client begin nothing more here, and end with its last request.

        In one go with the end of the last answer that runs, for clients made of h2 (httpx) give up
        what runs when they are asked; when it begins another beside it; or when it is idle.

        What it begins all the same is served, and what it began before it heard of that is here
        with the answer to the PING. In front, for h2 takes no frame behind GOAWAY.
        """
        if not self.asked:
            self.asked = True
            with suppress(h2.exceptions.ProtocolError):  # it is closed already
                self.connection.ping(FAREWELL)
                await self.send(RawData(self.connection.data_to_send() + asks_to_leave()))

    def answered(self, ping: bytes) -> bool:
        """Whether this is the answer to the PING: all that crossed with the question is here."""
        return self.asked and ping == FAREWELL

    async def leave(self, code: int = ErrorCodes.NO_ERROR) -> None:
        """The last GOAWAY, once. What comes behind it may be asked elsewhere, and is passed over:
        h2 would answer it with a GOAWAY that blames the client."""
        if not self.done:
            self.done = True
            with suppress(h2.exceptions.ProtocolError):  # it is closed already
                self.connection.close_connection(code, last_stream_id=self.begun)
            data = self.connection.data_to_send()
            if data:
                await self.send(RawData(data))

    def cut_off(self, running: Iterable[int]) -> bytes:
        """What is to be sent when all ends at once: that these requests get no answer, and the last
        GOAWAY, for what the client has begun meanwhile may be asked elsewhere."""
        with suppress(h2.exceptions.ProtocolError):  # it is closed already
            for stream_id in running:
                stream = self.connection.streams.get(stream_id)
                if stream is not None and stream.open:
                    self.connection.reset_stream(stream_id, ErrorCodes.INTERNAL_ERROR)
            if not self.done:
                self.done = True
                self.connection.close_connection(last_stream_id=self.begun)
        return bytes(self.connection.data_to_send())
