"""Chunked request bodies (RFC 9112 section 7.1), read strictly and up to an exact end.

Written here because the bytes after the last chunk belong to the next request, and httptools does
not tell where a message ended.
"""

import re

from trioroute.proxy.serving.gathering import Gathered
from trioroute.proxy.serving.refusal import Refusal, invalid

SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e\x80-\xff]*)?")
TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")
MAX_LINE = 1024
MAX_TRAILER_LINES = 64


def too_large_body(limit: int) -> Refusal:
    """413 with the limit in its text."""
    return Refusal(413, "body_too_large", f"the request body is over {limit} bytes")


class ChunkedBody:
    """Takes bytes as they come; `done` once the last chunk and the trailers are read.

    Trailers and chunk extensions are checked and dropped.
    """

    __slots__ = ("_body", "_buffer", "_left", "_limit", "_size", "_trailers", "done")

    def __init__(self, limit: int) -> None:
        self._buffer = bytearray()
        self._body = Gathered()
        self._size = 0
        self._limit = limit
        self._left: int | None = None
        """Bytes the current chunk still owes; None before a size line."""
        self._trailers = -1
        """Trailer lines read; -1 before the last chunk."""
        self.done = False

    def feed(self, data: bytes) -> None:
        """Raises Refusal: 400 for broken framing, 413 over the limit."""
        self._buffer += data
        position = 0
        while not self.done:
            step = self._take_data(position) if self._left is not None else self._line(position)
            if step < 0:
                break
            position = step
        del self._buffer[:position]

    def body(self) -> bytes:
        """The body without its framing."""
        return self._body.whole()

    def rest(self) -> bytes:
        """What came after the body: the beginning of the next request."""
        return bytes(self._buffer)

    def _take_data(self, position: int) -> int:
        left = self._left or 0
        buffer = self._buffer
        available = len(buffer) - position
        if left:
            if not available:
                return -1
            taken = min(left, available)
            with memoryview(buffer) as view:
                self._body.add(view[position : position + taken])
            self._left = left - taken
            return position + taken
        if available < 2:
            if available and buffer[position] != 13:
                raise invalid("a chunk does not end in CR LF")
            return -1
        if buffer[position : position + 2] != b"\r\n":
            raise invalid("a chunk does not end in CR LF")
        self._left = None
        return position + 2

    def _line(self, position: int) -> int:
        end = self._buffer.find(b"\n", position, position + MAX_LINE)
        if end < 0:
            if len(self._buffer) - position >= MAX_LINE:
                raise invalid("a chunk size or trailer line is too long")
            return -1
        line = bytes(self._buffer[position:end])
        if line[-1:] != b"\r":
            raise invalid("a chunk line ends in LF without CR")
        if self._trailers >= 0:
            self._take_trailer(line[:-1])
        else:
            self._take_size(line[:-1])
        return end + 1

    def _take_size(self, line: bytes) -> None:
        match = SIZE.fullmatch(line)
        if match is None:
            raise invalid("a bad chunk size")
        size = int(match[1], 16)
        if size == 0:
            self._trailers = 0
            return
        self._size += size
        if self._size > self._limit:
            raise too_large_body(self._limit)
        self._left = size

    def _take_trailer(self, line: bytes) -> None:
        if not line:
            self.done = True
            return
        self._trailers += 1
        if self._trailers > MAX_TRAILER_LINES or TRAILER.fullmatch(line) is None:
            raise invalid("a bad trailer")
