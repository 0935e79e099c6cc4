"""Passing a response on, byte for byte, as it comes; and ending it as it ended."""

from typing import TYPE_CHECKING

import httpx

from trioroute.proxy.errors import error_event
from trioroute.proxy.first_event import is_event_stream, next_chunk
from trioroute.proxy.headers import to_client
from trioroute.proxy.serving.asgi import BrokenEnding
from trioroute.proxy.upstream.error import UpstreamError
from trioroute.proxy.watch import Watched

if TYPE_CHECKING:
    from trioroute.proxy.dispatch import AttemptRun


class Relay:
    """Relays one response of an attempt. ``began``: the head may have reached the client."""

    def __init__(
        self, attempt: "AttemptRun", response: httpx.Response, first: bytes, watched: Watched
    ) -> None:
        self._attempt = attempt
        self._response = response
        self._first = first
        self._watched = watched
        self._send = attempt.passage.send
        self._now_ms = attempt.desk.now_ms
        self.event_stream = is_event_stream(response)
        self.began = False

    async def run(self) -> None:
        """Relay to the end. Raises BrokenEnding when the replica's end was not a clean one."""
        attempt = self._attempt
        stream = attempt.stream
        assert stream is not None
        ending, tap, watched = attempt.ending, attempt.ending.tap, self._watched
        ending.first_byte_ms = self._now_ms()
        await self._start()
        chunk: bytes | None = self._first
        try:
            while chunk is not None:
                tap.feed(chunk)
                following = await next_chunk(stream) if stream.complete else None
                last = stream.complete and following is None
                watched.phase = "client_stall"
                watched.since_ms = self._now_ms()
                await self._send(
                    {"type": "http.response.body", "body": chunk, "more_body": not last}
                )
                watched.since_ms = self._now_ms()
                watched.phase = "idle"
                if following is None and not last:
                    following = await next_chunk(stream)
                    if following is None:
                        await self._send({"type": "http.response.body", "body": b""})
                chunk = following
            self._settle_whole()
        except UpstreamError as error:
            ending.settle("upstream_cut", error.cause, "replica")
            await self.break_off(f"the replica's response broke off ({error.cause})")

    async def _start(self) -> None:
        attempt = self._attempt
        ours = [
            (b"x-request-id", attempt.passage.request_id.encode("ascii")),
            (b"via", b"1.1 trioroute"),
            *attempt.own_headers(),
        ]
        headers = to_client(self._response.headers.raw, ours, event_stream=self.event_stream)
        self.began = True
        await self._send(
            {
                "type": "http.response.start",
                "status": self._response.status_code,
                "headers": headers,
            }
        )

    def _settle_whole(self) -> None:
        """The replica ended its answer properly: what the answer was decides the outcome."""
        ending = self._attempt.ending
        if ending.settled:
            return
        status = self._response.status_code
        if ending.tap.aborted():
            ending.settle("upstream_cut", "abort", "replica")
        elif status >= 500:
            ending.settle("upstream_error", "status", "none")
        elif status >= 400:
            ending.settle("client_error", "status", "client")
        elif self.event_stream and not ending.tap.bytes and self._may_have_body():
            ending.settle("upstream_empty", "fin", "replica")
        elif self.event_stream and ending.tap.ends_with_error():
            ending.settle("upstream_error", "error_event", "replica")
        else:
            ending.settle("ok", "none", "none")
        ending.response = self._attempt.passage.response_digest(ending.tap)

    def _may_have_body(self) -> bool:
        method: str = self._attempt.passage.scope["method"]
        return method != "HEAD"

    async def break_off(self, message: str) -> None:
        """End what began as broken: an error event where one can be read, then no clean end."""
        tap = self._attempt.ending.tap
        if self.event_stream and self.began and not tap.ends_with_error():
            border = b"" if tap.at_event_border() or not tap.bytes else b"\n\n"
            event = border + error_event("upstream_cut", message, 502)
            await self._send({"type": "http.response.body", "body": event, "more_body": True})
        raise BrokenEnding(message)
