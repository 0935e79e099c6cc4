"""One request and its response on a stream of hypercorn's: ASGI's receive and send."""

from typing import Protocol

import trio

from trioroute.proxy.serving.asgi import Message, Send, tells_length
from trioroute.proxy.serving.hangup import Client
from trioroute.proxy.serving.hub import Hub

HOP_BY_HOP = frozenset((b"transfer-encoding", b"keep-alive", b"proxy-connection", b"upgrade"))


class StreamEnds(Protocol):
    """What hypercorn has no message for: ``stream_ends``, which knows its inside."""

    async def break_stream(self, send: Send) -> None:
        """End a response visibly broken."""

    async def go_on(self, send: Send) -> None:
        """Tell the client to send its body."""

    async def stop_sending(self, send: Send) -> None:
        """Tell it, behind its whole answer, to send none."""

    def timed_by(self, send: Send, clock: "GuardedExchange") -> None:
        """Have its ``took`` called for what leaves of this response."""

    def undelivered(self, send: Send) -> bool:
        """Whether the end of a response, which was sent, waits for the client."""

    def stalled(self, send: Send) -> bool:
        """Whether the connection is over because its client took nothing."""


class GuardedExchange:
    """Receive and send for one call of the application, on hypercorn's messages."""

    def __init__(
        self, body: bytes, send: Send, client: Client, hub: Hub, ends: StreamEnds, is_h2: bool
    ) -> None:
        self.raw_send = send
        self.client = client
        self.scope: trio.CancelScope | None = None
        """Of the application: cancelled for a client that takes nothing for ``client_stall_ms``."""
        self.deadline = float("inf")
        self.stalled = False
        self._hub = hub
        self._sending = False
        self._shut = False
        """What was sent waits for the client's window."""
        ends.timed_by(send, self)
        self.started = False
        self.complete = False
        """The last message was given to ``send``."""
        self.delivered = False
        """It found its way: who gives the answer up before that ends it broken."""
        self._body: bytes | None = body
        self._dropped = HOP_BY_HOP | {b"connection"} if is_h2 else HOP_BY_HOP
        self._date = (b"date", hub.date_line[6:].strip())

    async def receive(self) -> Message:
        """The whole body first; the disconnect only once the response is complete."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if not self.complete:
            await trio.sleep_forever()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Pass a message on, without headers that HTTP/2 forbids or hypercorn writes itself."""
        if message["type"] == "http.response.start":
            dropped = self._dropped
            if not tells_length(message["status"]):
                dropped |= {b"content-length"}
            headers = [
                (name.lower(), value)
                for name, value in message.get("headers", ())
                if name.lower() not in dropped
            ]
            if not any(name == b"date" for name, _ in headers):
                headers.append(self._date)
            self.started = True
            await self.raw_send({**message, "headers": headers})
            return
        last = not message.get("more_body", False)
        if last:
            self.complete = True  # before the wait: a hang-up behind it interrupts nothing
        if self.deadline == float("inf"):  # else what was sent before waits still
            self._begin_clock()
        self._sending = True
        try:
            await self.raw_send(message)
        finally:
            self._sending = False
            if last or not self._shut:
                self.deadline = float("inf")
        self.delivered = last

    def took(self, size: int, *, shut: bool) -> None:
        """So many bytes of the body left; ``shut``: more would, had the client opened its window.

        Not what waits for its turn among other answers counts: that is no doing of the client's.
        """
        if size or shut != self._shut:
            self.deadline = float("inf")
            if shut or self._sending:
                self._begin_clock()
        self._shut = shut

    def _begin_clock(self) -> None:
        self.deadline = self._hub.deadline(self._hub.limits.client_stall_ms / 1000)

    def expire(self) -> None:
        """The client took nothing for too long: it counts as gone."""
        self.deadline = float("inf")
        self.stalled = self.client.stalled = self.client.gone = True
        if self.scope is not None:
            self.scope.cancel()
