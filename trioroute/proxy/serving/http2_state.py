"""h2's state of one connection (4.4), where what is wrong with one request ends no other.

h2 ends the connection at any error, and takes and sends nothing more behind a GOAWAY. Touches
private names of h2; where they have moved, both are so again.
"""

from collections.abc import Mapping

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import Event
from h2.exceptions import InvalidBodyLengthError, ProtocolError
from h2.settings import SettingCodes, Settings
from h2.stream import StreamState
from hpack import HPACKError
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame, PriorityFrame

from trioroute.proxy.serving.frame_faults import Incoming, Unfit

ANY_NUMBER = 2**31
RESIZE = 0x20
MOST_RESIZES = 8
"""In one head. Two have a use; hpack takes 12 µs for each, which are 0.2 s for 16 KiB of them."""
LAST_OF_ALL = 2**31 - 1
"""The last stream id in a GOAWAY that only asks to send nothing more (RFC 9113 section 6.8)."""


class Malformed(Event):
    """A request broke the rules of its own stream, which was reset for it (RFC 9113, 8.1.1)."""

    def __init__(self, stream_id: int) -> None:
        self.stream_id = stream_id


class ClientLeaves(Event):
    """GOAWAY without an error: nothing more is asked, and what runs is waited for."""


class Announced(Settings):
    """Our own settings, of which h2 holds up all but the number of concurrent streams: it would end
    the connection over the first too many, which is to be refused (RFC 9113, 5.1.2)."""

    def __init__(self, values: Mapping[SettingCodes, int]) -> None:
        super().__init__(client=False, initial_values=dict(values))
        # Hypercorn offers it, for websockets (RFC 8441), of which none is served here.
        del self[SettingCodes.ENABLE_CONNECT_PROTOCOL]

    @property
    def max_concurrent_streams(self) -> int:
        """What h2 looks at; what is announced is the item."""
        return ANY_NUMBER

    @max_concurrent_streams.setter
    def max_concurrent_streams(self, value: int) -> None:
        raise NotImplementedError


class Http2State(H2Connection):
    """The server's side, with header fields as bytes."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(config=H2Configuration(client_side=False, header_encoding=None))
        self.local_settings = Announced({SettingCodes(code): n for code, n in settings.items()})
        self.incoming_buffer = Incoming(server=True)

    def _receive_frame(self, frame: Frame) -> list[Event]:
        if isinstance(frame, GoAwayFrame) and not frame.error_code:
            return [ClientLeaves()]
        if isinstance(frame, Unfit):
            if frame.for_begun and frame.stream_id > self.highest_inbound_stream_id:
                raise ProtocolError("a frame for a stream that has not begun")
            return self._end_alone(frame.stream_id, frame.error)
        if isinstance(frame, PriorityFrame) and frame.depends_on == frame.stream_id:
            return self._end_alone(frame.stream_id, ErrorCodes.PROTOCOL_ERROR)
        is_head = isinstance(frame, HeadersFrame)
        if isinstance(frame, HeadersFrame) and resizes(frame.data) > MOST_RESIZES:
            raise ProtocolError("a head that begins with many sizes of the header table")
        is_new = is_head and frame.stream_id not in self.streams
        ran = self._runs(frame.stream_id)
        try:
            return super()._receive_frame(frame)
        except InvalidBodyLengthError:
            events = self._reset(frame.stream_id)
            if isinstance(frame, DataFrame):
                self.acknowledge_received_data(frame.flow_controlled_length, frame.stream_id)
            return events
        except ProtocolError as error:
            # A stream is made only of a head that was read whole, into the table of all heads; and
            # trailers that were not are a fault of that table.
            made = is_new and frame.stream_id in self.streams
            read = is_head and ran and not isinstance(error.__cause__, HPACKError)
            if not made and not read:
                raise
            return self._reset(frame.stream_id)

    def came_whole(self, stream_id: int) -> bool:
        """Whether the client has ended its side of this stream."""
        stream = self.streams.get(stream_id)
        return stream is None or stream.state_machine.state is not StreamState.OPEN

    def _runs(self, stream_id: int) -> bool:
        return stream_id in self.streams and self.streams[stream_id].open

    def _end_alone(self, stream_id: int, error: ErrorCodes) -> list[Event]:
        """A stream that is over has no end any more, and one that has not begun none yet: a reset
        of it would be our fault (RFC 9113 section 6.4)."""
        return self._reset(stream_id, error) if self._runs(stream_id) else []

    def _reset(self, stream_id: int, error: int = ErrorCodes.PROTOCOL_ERROR) -> list[Event]:
        self.reset_stream(stream_id, error)
        return [Malformed(stream_id)]


def resizes(block: bytes) -> int:
    """How many sizes of the header table a block of headers begins with, up to MOST_RESIZES + 1;
    they stand nowhere else (RFC 7541 section 4.2)."""
    at = count = 0
    while count <= MOST_RESIZES and at < len(block) and block[at] & 0xE0 == RESIZE:
        count += 1
        long = block[at] & 0x1F == 0x1F
        at += 1
        while long and at < len(block):
            long = block[at] >= 0x80
            at += 1
    return count


def asks_to_leave() -> bytes:
    """The frame that asks a client to begin nothing more here; what it begins is served."""
    return GoAwayFrame(0, last_stream_id=LAST_OF_ALL, error_code=ErrorCodes.NO_ERROR).serialize()
