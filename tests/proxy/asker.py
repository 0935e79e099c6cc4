"""An HTTP/2 client made of frames, for what no library would do."""

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import attrs
import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
import trio
from hyperframe.frame import Frame, GoAwayFrame

from tests.certificates import Pair
from tests.proxy.serving import RawClient, Serving
from tests.proxy.whole import Whole

Settings = h2.settings.SettingCodes
HUGE = 2**30
SMALL_BUFFER = 32 * 1024


class Reading(h2.connection.H2Connection):
    """Goes on behind GOAWAY, as most clients do and h2 itself does not."""

    def __init__(self) -> None:
        super().__init__(h2.config.H2Configuration(header_encoding="utf-8"))
        self.farewells: list[tuple[int, int]] = []
        """Last stream id and error code of each GOAWAY."""

    def _receive_frame(self, frame: Frame) -> list[h2.events.Event]:
        if isinstance(frame, GoAwayFrame):
            self.farewells.append((frame.last_stream_id, frame.error_code))
            return []
        return super()._receive_frame(frame)


@attrs.define
class Asker:
    """An HTTP/2 client that reads when it is told to."""

    raw: RawClient
    h2: Reading
    heads: dict[int, dict[str, str]] = attrs.field(factory=dict)
    bodies: dict[int, bytes] = attrs.field(factory=dict)
    whole: set[int] = attrs.field(factory=set)
    broken: dict[int, int] = attrs.field(factory=dict)
    """Error codes."""
    next: int = 1

    async def ask(self, path: str, body: bytes = b"", *, more: bool = False) -> int:
        """``more``: the body does not end with this."""
        stream = self.next
        self.next += 2
        method = "POST" if body else "GET"
        headers = {":method": method, ":path": path, ":scheme": "http", ":authority": "t"}
        self.h2.send_headers(stream, list(headers.items()), end_stream=not body)
        if body:
            self.h2.send_data(stream, body, end_stream=not more)
        await self.raw.send(self.h2.data_to_send())
        return stream

    async def go_on(self, stream: int, body: bytes, *, more: bool) -> None:
        self.h2.send_data(stream, body, end_stream=not more)
        await self.raw.send(self.h2.data_to_send())

    async def reset(self, stream: int) -> None:
        self.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        await self.raw.send(self.h2.data_to_send())

    def say_and_close(self, data: bytes) -> None:
        """In one go: the server finds the bytes and the end together."""
        sock = self.raw.transport.socket
        os.write(sock.fileno(), data)
        sock.close()

    async def read_whole(self, *streams: int) -> None:
        await self.read(lambda: self.whole >= set(streams))

    async def read(self, until: Callable[[], bool]) -> None:
        """Raises what h2 raises for bytes that are no HTTP/2."""
        while not until():
            if not await self.raw.fill():
                return
            data, self.raw.buffer = self.raw.buffer, b""
            for event in self.h2.receive_data(data):
                self._take(event)
            with suppress(trio.BrokenResourceError):  # the server may have closed behind it
                await self.raw.send(self.h2.data_to_send())

    def _take(self, event: object) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            self.heads[event.stream_id] = {str(name): str(value) for name, value in event.headers}
        elif isinstance(event, h2.events.DataReceived):
            self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
        elif isinstance(event, h2.events.StreamEnded):
            self.whole.add(event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.broken[event.stream_id] = int(event.error_code)


@asynccontextmanager
async def asking(
    server: Serving | Whole,
    window: int = HUGE,
    pair: Pair | None = None,
    buffer: int = SMALL_BUFFER,
) -> AsyncIterator[Asker]:
    sock = trio.socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    await sock.connect(("127.0.0.1", server.port))
    transport = trio.SocketStream(sock)
    try:
        if pair is None:
            raw = RawClient(transport)
        else:
            context = pair.client()
            context.set_alpn_protocols(["h2"])
            stream = trio.SSLStream(
                transport, context, server_hostname="127.0.0.1", https_compatible=True
            )
            await stream.do_handshake()
            raw = RawClient(stream)
        connection = Reading()
        connection.local_settings = h2.settings.Settings(
            client=True, initial_values={Settings.INITIAL_WINDOW_SIZE: window}
        )
        connection.initiate_connection()
        connection.increment_flow_control_window(HUGE)
        await raw.send(connection.data_to_send())
        yield Asker(raw, connection)
    finally:
        sock.close()


async def stuck(asker: Asker) -> None:
    """Ask for what never ends and read nothing, until the server can send no more."""
    await asker.ask("/big")
    await trio.sleep(0.5)
