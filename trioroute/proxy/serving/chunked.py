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

STEP_LINES = 128
"""Lines, and chunks behind them, taken before others run: 0.3 ms. A chunk of one byte
costs no less than one of 64 KiB, so it is how many there are that counts."""

FRAMING_BYTES = 64 * 1024
"""Chunk sizes, extensions and line ends may be so much, and as much again as the body is. Beyond
that a client makes work and brings no request (Go's net/http and Node bound it too)."""


def too_large_body(limit: int, size: str, setting: str = "") -> Refusal:
    """413 with the limit in its text; ``size`` as far as it is known."""
    over = f"{setting} = {limit}" if setting else f"the {limit} that are taken here"
    remedy = "send less, or raise the limit" if setting else "send less"
    return Refusal(
        413, "body_too_large", f"the request body of {size} bytes is over {over}: {remedy}"
    )


class ChunkedBody:
    """Takes bytes as they come; `done` once the last chunk and the trailers are read.

    Trailers and chunk extensions are checked and dropped.
    """

    __slots__ = (
        "_body",
        "_buffer",
        "_framing",
        "_left",
        "_limit",
        "_setting",
        "_size",
        "_trailers",
        "crowded",
        "done",
    )

    def __init__(self, limit: int, setting: str = "") -> None:
        """``setting``: what sets the limit."""
        self._buffer = bytearray()
        self._body = Gathered()
        self._size = 0
        self._framing = 0
        self._limit = limit
        self._setting = setting
        self._left: int | None = None
        """Bytes the current chunk still owes; None before a size line."""
        self._trailers = -1
        """Trailer lines read; -1 before the last chunk."""
        self.done = False
        self.crowded = False
        """Not all that came is read: when others have run, ``feed(b"")`` goes on."""

    def feed(self, data: bytes) -> None:
        """Read on, at most STEP_LINES lines.

        Raises Refusal: 400 for broken framing or too much of it, 413 over the limit.
        """
        self._buffer += data
        position = 0
        self.crowded = False
        with memoryview(self._buffer) as view:
            for _ in range(2 * STEP_LINES):
                owes = self._left is not None
                step = self._take_data(view, position) if owes else self._line(position)
                if step < 0:
                    break
                position = step
                if self.done:
                    break
            else:
                self.crowded = True
        del self._buffer[:position]

    def body(self) -> bytes:
        """The body without its framing."""
        return self._body.whole()

    def rest(self) -> bytes:
        """What came after the body: the beginning of the next request."""
        return bytes(self._buffer)

    def _take_data(self, view: memoryview, position: int) -> int:
        left = self._left or 0
        taken = min(left, len(view) - position)
        if taken:
            self._body.add(view[position : position + taken])
            self._left = left = left - taken
            position += taken
        if left:
            return position if taken else -1
        end = self._buffer[position : position + 2]
        if end == b"\r\n":
            self._left = None
            return position + 2
        if end and end != b"\r":
            raise invalid("a chunk does not end in CR LF")
        return position if taken else -1

    def _line(self, position: int) -> int:
        buffer = self._buffer
        end = buffer.find(b"\n", position, position + MAX_LINE)
        if end < 0:
            if len(buffer) - position >= MAX_LINE:
                raise invalid("a chunk size or trailer line is too long")
            return -1
        if end == position or buffer[end - 1] != 13:
            raise invalid("a chunk line ends in LF without CR")
        if self._trailers >= 0:
            self._take_trailer(bytes(buffer[position : end - 1]))
        else:
            self._take_size(position, end - 1)
        return end + 1

    def _take_size(self, start: int, end: int) -> None:
        match = SIZE.fullmatch(self._buffer, start, end)
        if match is None:
            raise invalid("a bad chunk size")
        size = int(match[1], 16)
        if size == 0:
            self._trailers = 0
            return
        self._size += size
        if self._size > self._limit:
            raise too_large_body(self._limit, f"at least {self._size}", self._setting)
        self._framing += end - start + 4
        if self._framing > FRAMING_BYTES + self._size:
            raise invalid(
                "the body comes in too many chunks of a few bytes, or with long chunk extensions: "
                f"its framing is over {FRAMING_BYTES} bytes and longer than itself: "
                "send larger ones"
            )
        self._left = size

    def _take_trailer(self, line: bytes) -> None:
        if not line:
            self.done = True
            return
        self._trailers += 1
        if self._trailers > MAX_TRAILER_LINES or TRAILER.fullmatch(line) is None:
            raise invalid("a bad trailer")
