"""One connection to a replica: connect, send, receive, close.

Two kinds with one face: plain sockets, used through the file descriptor interface because Trio's
wrappers cost two checkpoints a call, and TLS through trio.SSLStream. Every failure is raised as
UpstreamError. `close` is a plain call: it works while the task is being cancelled.
"""

import os
import select
import socket
import ssl
from typing import Protocol

import attrs
import trio

from trioroute.proxy.upstream.error import UpstreamError, from_os_error, from_stream_error

SEND_BYTES = 1 << 20
"""Given to the kernel in one step of the event loop, which takes up to a millisecond."""

TLS_SEND_BYTES = 256 * 1024
"""The same where it is encrypted as well."""

UNACKED_MS = 30_000
"""A replica's host that acknowledges nothing for this long is gone (TCP_USER_TIMEOUT)."""
PROBE_IDLE_S = 15
PROBE_INTERVAL_S = 5


@attrs.frozen
class Origin:
    """Where a replica is."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class UpstreamWire(Protocol):
    """A connection as the transport sees it. `idle_since` is for the pool."""

    idle_since: float

    def send_now(self, data: bytes | memoryview) -> int:
        """Give the kernel what it takes at once; the number of bytes. Raises OSError."""

    async def send_all(self, data: memoryview) -> None:
        """Give the kernel everything. Raises UpstreamError."""

    async def receive(self, most: int) -> bytes:
        """What one receive gives, empty at the end. Raises UpstreamError."""

    def receive_now(self, most: int) -> bytes | None:
        """The same without waiting; None if nothing is there. Raises UpstreamError."""

    @property
    def readable_fd(self) -> int | None:
        """What an epoll can watch for bytes to receive; None where it tells too little (TLS)."""

    def is_alive(self) -> bool:
        """Whether an idle connection is still open and silent."""

    def close(self) -> None:
        """Close at once."""


class PlainWire:
    """A plain TCP connection."""

    __slots__ = ("_silence", "_socket", "idle_since")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._silence = _silence_of(sock.fileno())
        self.idle_since = 0.0

    def send_now(self, data: bytes | memoryview) -> int:
        """See UpstreamWire."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    async def send_all(self, data: memoryview) -> None:
        """See UpstreamWire."""
        while data:
            await trio.lowlevel.wait_writable(self._socket)
            try:
                data = data[self._socket.send(data[:SEND_BYTES]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise from_os_error(error, "sending") from error

    async def receive(self, most: int) -> bytes:
        """See UpstreamWire. Waits first: mostly nothing is there yet, and a relay must yield."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            data = self.receive_now(most)
            if data is not None:
                return data

    def receive_now(self, most: int) -> bytes | None:
        """See UpstreamWire."""
        try:
            return self._socket.recv(most)
        except BlockingIOError:
            return None
        except OSError as error:
            raise from_os_error(error, "receiving") from error

    @property
    def readable_fd(self) -> int | None:
        """See UpstreamWire."""
        return self._socket.fileno()

    def is_alive(self) -> bool:
        """See UpstreamWire."""
        return not self._silence.poll(0)

    def close(self) -> None:
        """See UpstreamWire."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class TlsWire:
    """A TLS connection."""

    __slots__ = ("_stream", "idle_since")

    def __init__(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        self._stream = stream
        self.idle_since = 0.0

    def send_now(self, data: bytes | memoryview) -> int:
        """See UpstreamWire."""
        return 0

    async def send_all(self, data: memoryview) -> None:
        """See UpstreamWire."""
        try:
            while data:
                await self._stream.send_all(data[:TLS_SEND_BYTES])
                data = data[TLS_SEND_BYTES:]
        except trio.BrokenResourceError as error:
            raise from_stream_error(error, "sending") from error

    async def receive(self, most: int) -> bytes:
        """See UpstreamWire."""
        try:
            return bytes(await self._stream.receive_some(most))
        except trio.BrokenResourceError as error:
            raise from_stream_error(error, "receiving") from error

    def receive_now(self, most: int) -> bytes | None:
        """See UpstreamWire."""
        return None

    @property
    def readable_fd(self) -> int | None:
        """See UpstreamWire. Bytes may have been decrypted already."""
        return None

    def is_alive(self) -> bool:
        """See UpstreamWire."""
        fd = self._stream.transport_stream.socket.fileno()
        return fd >= 0 and not _silence_of(fd).poll(0)

    def close(self) -> None:
        """See UpstreamWire. Without close_notify: that would be a wait."""
        self._stream.transport_stream.socket.close()


def _silence_of(fd: int) -> select.poll:
    """Tells of bytes to read, an end or an error: any of them on an idle connection spoils it."""
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLRDHUP)
    return poll


async def connect(origin: Origin, timeout_s: float) -> UpstreamWire:
    """Open a connection; addresses of the host are tried in order, sharing the time fairly.

    Raises UpstreamError (refused, dns, tls, timeout; `sent` is False). Cancelled: nothing stays.
    """
    with trio.move_on_after(timeout_s) as scope:
        sock = await _connect_any(origin, scope)
        if origin.tls is None:
            return PlainWire(sock)
        return await _handshake(sock, origin, origin.tls)
    raise UpstreamError("timeout", f"no connection within {timeout_s:g} s")


async def _connect_any(origin: Origin, scope: trio.CancelScope) -> socket.socket:
    try:
        found = await trio.socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise UpstreamError("dns", f"cannot resolve its host: {error.strerror}") from error
    except OSError as error:
        raise from_os_error(error, "resolving its host") from error
    failure: OSError | None = None
    for index, (family, _, _, _, address) in enumerate(found):
        now_s = trio.current_time()
        share_s = (scope.deadline - now_s) / (len(found) - index)  # negative on a busy loop
        try:
            with trio.move_on_at(now_s + share_s):
                return await _connect_one(family, address)
        except OSError as error:
            failure = error
            if from_os_error(error, "").local:
                break
    if failure is None:
        raise UpstreamError("timeout", "none of its addresses answered in time")
    raise from_os_error(failure, "connecting") from failure


async def _connect_one(
    family: socket.AddressFamily,
    address: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    connected = False
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKED_MS)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_INTERVAL_S)
        try:
            sock.connect(address)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
            number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                raise OSError(number, os.strerror(number)) from None
        connected = True
        return sock
    finally:
        if not connected:
            sock.close()


async def _handshake(sock: socket.socket, origin: Origin, context: ssl.SSLContext) -> TlsWire:
    stream = trio.SSLStream(
        trio.SocketStream(trio.socket.from_stdlib_socket(sock)),
        context,
        server_hostname=origin.host,
        https_compatible=True,
    )
    done = False
    try:
        await stream.do_handshake()
        done = True
        return TlsWire(stream)
    except trio.BrokenResourceError as error:
        told = str(error.__cause__ or error).replace(origin.host, "its host")
        raise UpstreamError("tls", f"TLS handshake: {told}") from error
    finally:
        if not done:
            stream.transport_stream.socket.close()
