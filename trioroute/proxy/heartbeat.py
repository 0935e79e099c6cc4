"""Comments to a streaming client while its prompt is prefilled, so that nobody in between gives up.

The first one commits the answer to 200 and an event stream before the replica has said a word. What
goes wrong after it can only be told inside the stream.
"""

from collections.abc import Callable
from typing import Never

import attrs
import trio

from trioroute.proxy.headers import VIA
from trioroute.proxy.serving.asgi import BrokenEnding, Send

COMMENT = b": heartbeat\n\n"
"""A comment is a line that begins with a colon; readers pass over it (HTML, 9.2.6)."""

HEAD = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
    (b"via", VIA),
)


@attrs.define(slots=True, eq=False)
class Heartbeat:
    """Of one request, over all its attempts. ``may_begin``: the decision in force is durable."""

    send: Send
    request_id: str
    every_s: float
    may_begin: Callable[[], bool]
    began: bool = False
    """The head has gone to the client."""
    _hushed: bool = False
    _sending: trio.Lock = attrs.field(factory=trio.Lock)

    async def run(self) -> None:
        """Speak now and then until hushed or cancelled."""
        while True:
            await trio.sleep(self.every_s)
            async with self._sending:
                if self._hushed:
                    return
                if self.may_begin():
                    await self._speak()

    async def _speak(self) -> None:
        if not self.began:
            self.began = True
            headers = [*HEAD, (b"x-request-id", self.request_id.encode("ascii"))]
            await self.send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.send({"type": "http.response.body", "body": COMMENT, "more_body": True})

    async def hush(self) -> bool:
        """No comment from now on, the one under way is whole; whether the answer has begun."""
        self._hushed = True
        async with self._sending:
            return self.began

    async def break_off(self, event: bytes) -> Never:
        """The last word of an answer that began, and then no clean end."""
        await self.send({"type": "http.response.body", "body": event, "more_body": True})
        raise BrokenEnding
