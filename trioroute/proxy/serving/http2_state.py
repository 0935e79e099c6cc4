"""h2's state of one connection (4.4), where what is wrong with one request ends no other.

h2 ends the connection at any error, and takes and sends nothing more behind a GOAWAY. Touches
one private name of h2; where that has moved, both are so again.
"""

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import Event
from h2.exceptions import InvalidBodyLengthError, ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame

ANY_NUMBER = 2**31
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
        values = {SettingCodes(code): value for code, value in settings.items()}
        self.local_settings = Announced(client=False, initial_values=values)

    def _receive_frame(self, frame: Frame) -> list[Event]:
        if isinstance(frame, GoAwayFrame) and not frame.error_code:
            return [ClientLeaves()]
        is_new = isinstance(frame, HeadersFrame) and frame.stream_id not in self.streams
        try:
            return super()._receive_frame(frame)
        except InvalidBodyLengthError:
            events = self._reset(frame)
            if isinstance(frame, DataFrame):
                self.acknowledge_received_data(frame.flow_controlled_length, frame.stream_id)
            return events
        except ProtocolError:
            # A stream is made only of a head that was read whole, into the table of all heads.
            if not is_new or frame.stream_id not in self.streams:
                raise
            return self._reset(frame)

    def _reset(self, frame: Frame) -> list[Event]:
        self.reset_stream(frame.stream_id, ErrorCodes.PROTOCOL_ERROR)
        return [Malformed(frame.stream_id)]


def asks_to_leave() -> bytes:
    """The frame that asks a client to begin nothing more here; what it begins is served."""
    return GoAwayFrame(0, last_stream_id=LAST_OF_ALL, error_code=ErrorCodes.NO_ERROR).serialize()
