"""Passing a response on, byte for byte, as it comes; and ending it as it ended."""

from contextlib import suppress

from trioroute.proxy.attempt import Attempt
from trioroute.proxy.errors import error_event, event_of_answer
from trioroute.proxy.first_event import next_chunk
from trioroute.proxy.headers import to_client
from trioroute.proxy.heartbeat import Heartbeat
from trioroute.proxy.pump import Lane
from trioroute.proxy.serving.asgi import BrokenEnding
from trioroute.proxy.serving.exchange import EXTENSION as OUTLET
from trioroute.proxy.serving.exchange import Exchange
from trioroute.proxy.tap import cut_in_event
from trioroute.proxy.upstream.error import UpstreamError
from trioroute.proxy.upstream.message import Answer, UpstreamStream
from trioroute.proxy.verdict import of_error, of_error_event

TOLD_MAX = 64 * 1024
"""Of an error's body, where it has to become an event."""


class Relay:
    """Relays one response of an attempt. ``first`` is to be set before ``run``; ``began``: the
    head may have reached the client; ``ended``: its last byte may have; ``tells_events``: the
    answer is events that can be read."""

    def __init__(self, attempt: Attempt, response: Answer) -> None:
        self._attempt = attempt
        self._response = response
        self.first = b""
        self._watched = attempt.watched
        self._send = attempt.passage.send
        self._outlet: Exchange | None = attempt.passage.scope["extensions"].get(OUTLET)
        self._now_ms = attempt.desk.now_ms
        self._event_stream = attempt.event_stream
        self._readable = attempt.readable
        self.tells_events = response.status == 200 and attempt.event_stream and attempt.readable
        self.began = False
        self.ended = self._empty_end = False
        self._headers = to_client(
            response.headers,
            [(b"x-request-id", attempt.passage.request_id.encode("ascii")), *attempt.own_headers()],
            event_stream=attempt.event_stream,
        )

    async def run(self) -> None:
        """Relay to the end. Raises BrokenEnding when the replica's end was not a clean one."""
        attempt = self._attempt
        stream = attempt.stream
        assert stream is not None
        ending, tap, watched = attempt.ending, attempt.ending.tap, self._watched
        await self._start()
        ending.first_byte_ms = self._now_ms()
        attempt.passage.body = b""  # nothing is sent again from here on; streams last for minutes
        chunk: bytes | None = self.first
        try:
            while chunk is not None:
                following = await next_chunk(stream) if stream.complete else None
                last = stream.complete and following is None and not self._cut(chunk)
                await self._tell(chunk, last)
                tap.feed(chunk)  # not of a chunk that was not told
                watched.enter("idle", self._now_ms())
                if following is None and not last:
                    following = await self._following(stream)
                    if following is None:
                        if self._cut():
                            raise UpstreamError("fin", "in the middle of an event", sent=True)
                        await self._tell(b"", True)
                chunk = following
            self._settle_whole()
        except UpstreamError as error:
            ending.settle("upstream_cut", error.cause, of_error(error).blame)
            await self.break_off(f"the replica's response broke off ({error.cause})")
        finally:
            # The official client hangs up at [DONE], or at an error event, often before the replica
            # ends the body: then the answer, not the hang-up, is how it ended.
            told = watched.phase == "idle" or self._empty_end
            if not ending.settled and told and self._last_word_was_told():
                self._settle_whole()

    async def _tell(self, chunk: bytes, last: bool) -> None:
        if last and self._outlet is None:  # hypercorn may be cancelled behind the end
            await self._attempt.heed_limits()
        self._watched.enter("client_stall", self._now_ms())
        self.ended, self._empty_end = last, last and not chunk
        await self._send({"type": "http.response.body", "body": chunk, "more_body": not last})

    async def _following(self, stream: UpstreamStream) -> bytes | None:
        """The next chunk that is for this task: the pump passes on those that are like the last."""
        attempt = self._attempt
        pump = attempt.desk.pump
        if self._outlet is None or not pump.takes(stream):
            return await next_chunk(stream)
        lane = Lane(stream, self._outlet, attempt.ending.tap, self._watched)
        return await pump.carry(lane) or await next_chunk(stream)

    def _last_word_was_told(self) -> bool:
        tap = self._attempt.ending.tap
        if tap.done():
            return True
        told_events = self._event_stream and self._readable and tap.at_event_border()
        return told_events and tap.error_at_end() is not None

    def _cut(self, more: bytes = b"") -> bool:
        """Whether a body that its connection ends, with ``more`` behind what was told, was cut: it
        stops in the middle of an event."""
        stream = self._attempt.stream
        if stream is None or not (stream.until_close and self.tells_events):
            return False
        return cut_in_event(self._attempt.ending.tap.tail() + more)

    async def _start(self) -> None:
        attempt = self._attempt
        heartbeat = attempt.passage.heartbeat
        if heartbeat is not None and await heartbeat.hush():
            self.began = True
            if not self.tells_events:
                await self._tell_in_the_stream(heartbeat)
            return
        await attempt.heed_limits()  # behind it the client is promised a whole answer
        self.began = True
        self._watched.enter("client_stall", self._now_ms())
        status = self._response.status
        await self._send(
            {"type": "http.response.start", "status": status, "headers": self._headers}
        )

    async def _tell_in_the_stream(self, heartbeat: Heartbeat) -> None:
        """The client was promised a 200 event stream before the replica answered otherwise."""
        stream = self._attempt.stream
        assert stream is not None
        status, told = self._response.status, self.first
        with suppress(UpstreamError):
            while len(told) < TOLD_MAX and (more := await next_chunk(stream)) is not None:
                told += more
        if status < 400:
            self._attempt.ending.settle("upstream_error", "protocol", "none")
        self._settle_whole()
        anthropic = self._attempt.passage.route.anthropic
        await heartbeat.break_off(event_of_answer(status, told, anthropic=anthropic))

    def _settle_whole(self) -> None:
        """The replica ended its answer properly: what the answer was decides the outcome."""
        ending = self._attempt.ending
        if ending.settled:
            return
        status = self._response.status
        tap = ending.tap
        passage = self._attempt.passage
        ending.response = passage.response_digest(tap)
        if passage.route.inference and tap.aborted():
            ending.settle("upstream_cut", "abort", "replica")
        elif status >= 500:
            ending.settle("upstream_error", "status", "none")
        elif status >= 400:
            ending.settle("client_error", "status", "client")
        elif self._event_stream and self._readable:
            self._settle_events()
        else:
            ending.settle("ok", "none", "none")

    def _settle_events(self) -> None:
        """Whether the stream told anything, and whether its last word is an error."""
        attempt = self._attempt
        ending, tap = attempt.ending, attempt.ending.tap
        code = tap.error_at_end()
        if not tap.has_event() and attempt.passage.scope["method"] != "HEAD":
            ending.settle("upstream_empty", "fin", "replica")
        elif code is None:
            ending.settle("ok", "none", "none")
        else:
            trouble = of_error_event(code, attempt.desk.settings.eject.busy_default_ms)
            ending.status = code
            if trouble is None:
                ending.settle("client_error", "error_event", "client")
            else:
                ending.retry_after_ms = trouble.retry_after_ms
                ending.settle("upstream_error", "error_event", trouble.blame)

    async def end_early(self, message: str) -> None:
        """The replica is waited for no longer: what it told to its last word is whole, although it
        never ended its side; anything else ends as ``break_off`` says.

        Not under a Content-Length, which would not be kept, nor while a piece is on its way.
        """
        idle = self._watched.phase == "idle" and not self.ended
        framed = self._response.header(b"content-length") == b""
        if idle and framed and self.tells_events and self._attempt.ending.tap.done():
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await self.break_off(message)

    async def break_off(self, message: str) -> None:
        """End what began as broken: an error event where one can be read, then no clean end.

        Under a Content-Length an event could fill up the body so that it looks complete; behind a
        chunk that is with the client in part it would be read as the rest of that chunk. Behind the
        last word nobody reads one.
        """
        tap = self._attempt.ending.tap
        torn = self._outlet is not None and self._outlet.torn
        mute = torn or self.ended or self._response.header(b"content-length") != b"" or tap.done()
        if self._event_stream and self._readable and not mute and tap.error_at_end() is None:
            border = b"" if tap.at_event_border() or not tap.bytes else b"\n\n"
            anthropic = self._attempt.passage.route.anthropic
            event = border + error_event("upstream_cut", message, 502, anthropic=anthropic)
            await self._send({"type": "http.response.body", "body": event, "more_body": True})
        raise BrokenEnding(message)
