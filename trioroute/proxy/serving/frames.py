"""What the frames of an HTTP/2 client cost, counted from their headers as the bytes pass.

A frame of nine bytes costs as much as a whole one, and none of it needs a request: a client may
send WINDOW_UPDATE, PING or SETTINGS for ever, or begin requests and reset them (CVE-2023-44487).
So frames go on in small steps, and whoever sends many more than its requests need is sent away
(RFC 9113 section 10.5; Envoy bounds the same kinds, by the frames that it sent).
"""

from collections.abc import Iterator

from h2.errors import ErrorCodes

PREFACE_BYTES = 24
HEADER_BYTES = 9
DATA, HEADERS, RESET, SETTINGS, CONTINUATION = 0, 1, 3, 4, 9

FRAME_BYTES = 16 * 1024
"""Of the largest frame that a client may send: what SETTINGS say, and the least that RFC 9113
section 4.2 allows. h2 looks at the size only when the whole frame is there, up to 16 MiB of it."""

STEP_FRAMES = 64
"""Taken before others run: some 2 ms."""
STREAM_COST = 16
"""A frame that begins a stream counts as so many of a step: headers are decoded, a task begins."""
RESET_COST = 8
"""One that ends a stream: a request is cancelled, and its end logged."""

FULL_BYTES = 256
"""DATA of this size is what a connection is for, and free."""
BURST = 1000
"""Frames that a client may be ahead: a hundred streams that begin at once, each in a few frames."""
A_SECOND = 100
FOR_EACH_SENT = 10
"""Frames more for each of HEADERS and DATA that it was sent: it opens windows and measures."""
SETTINGS_BYTES = 600
"""A hundred settings, where some ten have a meaning: h2 takes 11 ms for 2,700, a whole frame."""
FEW_BYTES = 60
"""Of settings, that count as one frame more."""
BLOCK_BYTES = 1024
"""Headers count as one frame more for each of so many bytes: to decode them takes 0.3 ms."""


class FrameMeter:
    """Follows the bytes of one client, from its connection preface on."""

    __slots__ = ("_block", "_block_bytes", "_credit", "_error", "_header", "_left", "_seen_s")

    def __init__(self, now_s: float, block_bytes: int) -> None:
        """``block_bytes``: of the headers of one request, as they come."""
        self._block_bytes = block_bytes
        self._block = 0
        """Of the headers under way, in HEADERS and what continues it."""
        self._error = 0
        self._left = PREFACE_BYTES
        """Of the frame under way."""
        self._header = b""
        """Of the next one, as far as it is here."""
        self._credit = float(BURST)
        self._seen_s = now_s

    @property
    def overdrawn(self) -> bool:
        """Whether the client sent more frames than any use of this server takes."""
        return self._credit < 0

    @property
    def error(self) -> int:
        """What to end the connection with (RFC 9113 section 7); 0: it may go on."""
        return self._error or (ErrorCodes.ENHANCE_YOUR_CALM if self.overdrawn else 0)

    def pass_time(self, now_s: float) -> None:
        """Time gives credit, up to BURST."""
        gained = self._credit + (now_s - self._seen_s) * A_SECOND
        self._credit = min(gained, float(BURST))
        self._seen_s = now_s

    def sent(self, data: bytes) -> None:
        """Bytes to the client, which begin with a frame: an answer gives credit."""
        if data[3:4] in (b"\x00", b"\x01"):
            self._credit += FOR_EACH_SENT

    def steps(self, data: bytes) -> Iterator[bytes]:
        """The next bytes of the client, cut into pieces that end in few frames each. With an
        ``error`` they end with the header of the frame that is too large."""
        at = begun = work = 0
        while at < len(data):
            if self._left:
                taken = min(self._left, len(data) - at)
                self._left -= taken
                at += taken
            else:
                missing = HEADER_BYTES - len(self._header)
                self._header += data[at : at + missing]
                at = min(at + missing, len(data))
                if len(self._header) == HEADER_BYTES:
                    work += self._charge()
                    if self._error:
                        break
            if work >= STEP_FRAMES and not self._left:
                yield data[begun:at]
                begun, work = at, 0
        if begun < at:
            yield data[begun:at]

    def _charge(self) -> int:
        """A header is whole: the credit it costs, and how many frames of a step it is."""
        size = int.from_bytes(self._header[:3], "big")
        kind = self._header[3]
        self._header = b""
        self._left = size
        if size > FRAME_BYTES:
            self._error = ErrorCodes.FRAME_SIZE_ERROR
        if kind == DATA:
            self._credit -= size < FULL_BYTES
            return 1
        if kind == SETTINGS:
            return self._charge_settings(size)
        if kind not in (HEADERS, CONTINUATION):
            self._credit -= 1
            return RESET_COST if kind == RESET else 1
        self._block = size if kind == HEADERS else self._block + size
        if self._block > self._block_bytes:
            self._error = self._error or ErrorCodes.ENHANCE_YOUR_CALM
        blocks = size // BLOCK_BYTES
        self._credit -= 1 + blocks
        return STREAM_COST + blocks

    def _charge_settings(self, size: int) -> int:
        if size > SETTINGS_BYTES:
            self._error = self._error or ErrorCodes.ENHANCE_YOUR_CALM
        cost = 1 + size // FEW_BYTES
        self._credit -= cost
        return cost
