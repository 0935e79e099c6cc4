"""One request on one connection, up to the head of its response."""

from collections.abc import AsyncIterable, Sequence

import trio

from trioroute.proxy.upstream.error import UpstreamError, from_os_error
from trioroute.proxy.upstream.message import Outgoing
from trioroute.proxy.upstream.response_parser import ResponseParser
from trioroute.proxy.upstream.wire import SEND_BYTES, UpstreamWire

JOIN_BYTES = 64 * 1024
"""Head and body up to this size leave in one system call; larger bodies are not copied."""


class UpstreamExchange:
    """Sends a request and reads the response's head.

    A response that comes before the request is sent completely (a 413, say) ends the sending: it
    is passed on, and the connection is not used again.
    """

    def __init__(self, wire: UpstreamWire, request: Outgoing, max_head_bytes: int) -> None:
        self._wire = wire
        self._request = request
        self.parser = ResponseParser(request.method, max_head_bytes)
        self.replayable = True
        """The body is in memory, so the request can be sent again."""
        self._sent = False
        self._send_failure: UpstreamError | None = None

    async def run(self) -> ResponseParser:
        """Raises UpstreamError; the connection is closed unless this returns."""
        done = False
        try:
            await self._send()
            await self._receive_head()
            self.parser.spoiled = not self._sent
            done = True
            return self.parser
        except UpstreamError as error:
            error.sent = self._sent
            raise
        finally:
            if not done:
                self._wire.close()

    async def _send(self) -> None:
        head = self._request.head()
        body = self._request.body
        if not isinstance(body, bytes):
            self.replayable = False
            await self._send_listening([memoryview(head)], body)
            return
        first = head + body if len(body) <= JOIN_BYTES else head
        try:
            taken = self._wire.send_now(first)
            if taken == len(head) and first is head:
                taken += self._wire.send_now(memoryview(body)[:SEND_BYTES])
        except OSError as error:
            self._send_failure = from_os_error(error, "sending the request")
            return
        self._sent = taken == len(head) + len(body)
        if not self._sent:
            unsent = [memoryview(first)[taken:]]
            if first is head:
                unsent.append(memoryview(body)[max(0, taken - len(head)) :])
            await self._send_listening(unsent, None)

    async def _send_listening(
        self, first: Sequence[memoryview], rest: AsyncIterable[bytes] | None
    ) -> None:
        """Send what does not fit into the kernel's buffer, with an ear on the replica."""
        failure: Exception | None = None
        heard: UpstreamError | None = None

        async def listen() -> None:
            nonlocal heard
            try:
                await self._read_until_head()
            except UpstreamError as error:
                heard = error
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            try:
                for part in first:
                    await self._wire.send_all(part)
                if rest is not None:
                    await self._send_stream(rest)
                self._sent = True
            except UpstreamError as error:
                self._send_failure = error
            except Exception as error:
                failure = error  # of the request's own stream; raised outside the nursery
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if heard is not None:
            raise self._told(heard)

    async def _send_stream(self, stream: AsyncIterable[bytes]) -> None:
        chunked = self._request.chunked
        async for chunk in stream:
            if not chunk:
                continue
            framed = b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunked else chunk
            await self._wire.send_all(memoryview(framed))
        if chunked:
            await self._wire.send_all(memoryview(b"0\r\n\r\n"))

    async def _receive_head(self) -> None:
        try:
            await self._read_until_head()
        except UpstreamError as error:
            raise self._told(error) from None

    def _told(self, error: UpstreamError) -> UpstreamError:
        """A replica that refused early may have answered before it closed, so a response was
        looked for first; without one the failed send is the better word.
        """
        if self._send_failure is not None and not self.parser.seen_bytes:
            return self._send_failure
        return error

    async def _read_until_head(self) -> None:
        parser = self.parser
        while not parser.has_head:
            parser.take_in(await self._wire.receive(parser.wanted_bytes))
