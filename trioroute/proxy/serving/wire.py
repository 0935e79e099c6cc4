"""The bytes of one client connection: reads, writes, deadlines, hang-up.

Reads and writes go to the file descriptor itself. Trio's socket methods cost two checkpoints and
a wrapper per call, which is a third of a small request's time; this class waits exactly once, when
the kernel has nothing to give or no room to take.
"""

import errno
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Sequence
from typing import ClassVar

import trio

from trioroute.proxy.serving.hangup import Client

READ_BYTES = 64 * 1024
READ_ON_BYTES = 256 * 1024
JOIN_BYTES = 16 * 1024
CALLS_PER_CHECKPOINT = 16
SHARE_BYTES = 32 * 1024
"""Of a body that is here already, taken for a call each: 512 KiB, up to 1 ms, before others run."""

UNREAD, UNSENT = termios.FIONREAD, termios.TIOCOUTQ
"""Of a socket, as tcp(7) has them: SIOCINQ and SIOCOUTQ."""

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ClientGone(Exception):
    """The client took or gave no more bytes. Ends the connection, never an error."""


class Wire:
    """One client connection. All methods are for the connection's own task, except `hang_up`
    and `expire`, which are for the watching tasks of the server.
    """

    __slots__ = (
        "_stall_s",
        "_streak",
        "client",
        "deadline",
        "expired",
        "fd",
        "scope",
        "stream",
        "torn",
    )

    scheme: ClassVar[str] = "http"

    def __init__(self, stream: trio.SocketStream, client_stall_ms: int) -> None:
        self.stream = stream
        self.fd: int = stream.socket.fileno()
        self.client = Client()
        self.scope: trio.CancelScope | None = None
        """Set while an application runs and its response is not complete."""
        self.deadline = float("inf")
        """When the present wait is over; the server's sweep looks at it, so no wait has a timer."""
        self.expired = False
        self.torn = False
        """A write was given up in its middle: what came now would be read as the rest of it."""
        self._stall_s = client_stall_ms / 1000
        self._streak = 0

    def hang_up(self, error: OSError | None = None) -> None:
        """The client is gone: cancel the application that works for it, if any.

        ``error``: what a call said of the connection; without one the socket is asked.
        """
        self.client.gone = True
        self._note_stall(self._error() if error is None else error.errno)
        if self.scope is not None:
            self.scope.cancel()

    def expire(self) -> None:
        """The deadline passed: end the present wait."""
        self.expired = True
        self.deadline = float("inf")
        if self.scope is not None:
            self.client.stalled = True
            self.hang_up()
        else:
            trio.lowlevel.notify_closing(self.fd)

    def _note_stall(self, code: int | None) -> None:
        """Whether this error is the kernel's word that the client took nothing (tcp(7),
        TCP_USER_TIMEOUT): its clock begins with the first byte that stays in its buffer, the one
        of ``write_rest`` when the buffer is full.

        ETIMEDOUT without such a byte is the keep-alive of a client that vanished.
        """
        if code == errno.ETIMEDOUT and self._unsent():
            self.client.stalled = True

    def _error(self) -> int:
        """The socket's pending error, which is told once; 0: none."""
        try:
            return self.stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        except OSError:
            return 0  # it is closed

    async def read_on(self, wanted: int) -> bytes:
        """As `read`, at least READ_BYTES at once and at most READ_ON_BYTES, of what has begun.

        The rest of a body is mostly here already, so it looks before it waits: a wait costs more
        than copying 64 KiB.
        """
        most = min(max(wanted, READ_BYTES), READ_ON_BYTES)
        self._streak += most // SHARE_BYTES
        if self._streak < CALLS_PER_CHECKPOINT:
            try:
                return os.read(self.fd, most)
            except BlockingIOError:
                pass
            except OSError:
                return b""
        return await self.read(most)

    async def read(self, most: int = READ_BYTES) -> bytes:
        """The next bytes, empty at the client's end or reset.

        Raises trio.ClosedResourceError when the deadline passed (`expired` is then True).
        """
        self._streak = 0
        while True:
            await trio.lowlevel.wait_readable(self.fd)
            try:
                return os.read(self.fd, most)
            except BlockingIOError:
                continue
            except OSError as error:
                self._note_stall(error.errno)
                return b""

    def read_now(self) -> bytes:
        """The bytes that are already here, empty if none are."""
        try:
            return os.read(self.fd, READ_BYTES)
        except OSError:
            return b""

    @property
    def hogs(self) -> bool:
        """Whether so many calls went without a wait that others have to run: ``give_way``."""
        return self._streak >= CALLS_PER_CHECKPOINT

    async def give_way(self) -> None:
        """Let others run, and whoever waits here be cancelled."""
        self._streak = 0
        await trio.lowlevel.checkpoint()

    async def write(self, parts: Sequence[bytes]) -> None:
        """Hand all bytes to the kernel; back-pressure is the wait for it to take them.

        Several parts leave in one system call. Raises ClientGone, or trio.Cancelled inside an
        application's scope, once the client is gone or has stalled.
        """
        self._streak += 1
        size = sum(map(len, parts))
        data = b"".join(parts) if size <= JOIN_BYTES else b""
        try:
            sent = os.write(self.fd, data) if data or not size else os.writev(self.fd, parts)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            await self._lost(error)
        if sent < size:
            await self.write_rest(memoryview(data or b"".join(parts))[sent:])

    def write_now(self, data: bytes) -> bytes:
        """Hand the kernel what it takes without waiting; the rest. Raises ClientGone."""
        try:
            sent = os.write(self.fd, data)
        except BlockingIOError:
            return data
        except OSError as error:
            self.hang_up(error)
            raise ClientGone from None
        return b"" if sent == len(data) else data[sent:]

    async def write_rest(self, rest: memoryview) -> None:
        """Hand the kernel what ``write_now`` left over. Raises as ``write``."""
        self._streak = 0
        self.torn = True
        try:
            while rest:
                self.deadline = trio.current_time() + self._stall_s
                await trio.lowlevel.wait_writable(self.fd)
                try:
                    rest = rest[os.write(self.fd, rest) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    await self._lost(error)
            self.torn = False
        finally:
            self.deadline = float("inf")

    async def _lost(self, error: OSError) -> None:
        self.hang_up(error)
        await trio.lowlevel.checkpoint()
        raise ClientGone

    def finish_writing(self) -> None:
        """Tell the client that nothing more comes, while still reading."""
        try:
            self.stream.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.client.gone = True

    def unsettled(self) -> bool:
        """Whether bytes wait in the kernel: unread ones here, or sent ones for the client's ack."""
        return self._waits(UNREAD) or self._unsent()

    def _unsent(self) -> bool:
        """Whether the client has not acknowledged all; told of a connection that is over too."""
        return self._waits(UNSENT)

    def _waits(self, queue: int) -> bool:
        try:
            return fcntl.ioctl(self.fd, queue, bytes(4)) != bytes(4)
        except OSError:
            return False

    def close(self, *, reset: bool = False) -> None:
        """Close the socket. `reset`: by RST, where a plain end would look like a complete body."""
        if reset and self.stream.socket.fileno() >= 0:
            self.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.stream.socket.close()
