"""Frames that hyperframe (6.1) cannot read, where only their stream is at fault.

h2 ends the connection over any of them, before it knows what they are. Touches private names of
h2's buffer, as ``http2_state`` does of its connection.
"""

from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.frame_buffer import FrameBuffer
from hyperframe.exceptions import HyperframeError
from hyperframe.frame import Frame, PriorityFrame, WindowUpdateFrame

HEADER_BYTES = 9
INCREMENT_BYTES = 4
RESERVED = 0x80
"""The first bit of an increment, which means nothing (RFC 9113 section 6.9)."""


class Unfit(Frame):
    """Stands for a frame that ends its stream with ``error``; its bytes are taken.

    ``for_begun``: its kind may not come for a stream that has not begun (RFC 9113 section 5.1).
    """

    def __init__(self, stream_id: int, error: ErrorCodes, *, for_begun: bool) -> None:
        super().__init__(stream_id)
        self.error = error
        self.for_begun = for_begun

    def serialize_body(self) -> bytes:
        """Of what nobody sends."""
        return b""


class Incoming(FrameBuffer):
    """Of a server. ``next`` gives ``Unfit`` where h2's raises over the fault of one stream."""

    def __next__(self) -> Frame:
        try:
            return super().__next__()
        except ProtocolError as error:
            # One that is not to be here, inside the headers of another, is a fault of framing.
            if not isinstance(error.__cause__, HyperframeError) or self._headers_buffer:
                raise
            told = self._unfit()
            if told is None:
                raise
            return told

    def _unfit(self) -> Frame | None:
        """The frame in front, which is whole and was not read; None: the connection's fault."""
        try:
            frame, size = Frame.parse_frame_header(memoryview(bytes(self._data[:HEADER_BYTES])))
        except HyperframeError:
            return None  # its header is what cannot be read: DATA of no stream, PING of one
        body = bytes(self._data[HEADER_BYTES : HEADER_BYTES + size])
        fit = self._read_again(frame, body)
        if fit is not None:
            del self._data[: HEADER_BYTES + size]
        return fit

    def _read_again(self, frame: Frame, body: bytes) -> Frame | None:
        if isinstance(frame, PriorityFrame):
            # RFC 9113 section 6.3.
            return Unfit(frame.stream_id, ErrorCodes.FRAME_SIZE_ERROR, for_begun=False)
        if not isinstance(frame, WindowUpdateFrame) or len(body) != INCREMENT_BYTES:
            return None
        increment = int.from_bytes(body, "big") & ~(RESERVED << 24)
        if increment:
            frame.window_increment = increment
            frame.body_len = INCREMENT_BYTES
            return frame
        if frame.stream_id == 0:
            return None  # the connection's window, and its error: RFC 9113 section 6.9
        return Unfit(frame.stream_id, ErrorCodes.PROTOCOL_ERROR, for_begun=True)
