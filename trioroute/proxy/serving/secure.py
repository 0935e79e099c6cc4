"""TLS below a client connection: the same wire with records between it and the socket.

Not Trio's SSLStream: a lean connection reads and writes a file descriptor, gives the kernel bytes
without waiting, and is ended from outside by a sweep, all of which SSLStream hides.
"""

import os
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

import trio

from trioroute.proxy.serving.records import Records
from trioroute.proxy.serving.tls import Renewable
from trioroute.proxy.serving.wire import (
    CALLS_PER_CHECKPOINT,
    READ_BYTES,
    READ_ON_BYTES,
    SHARE_BYTES,
    ClientGone,
    Wire,
)

HANDSHAKE_S = 10.0
HANDSHAKE = bytes((22,))
"""The type of the first record of TLS (RFC 8446 section 5.1); no HTTP request begins so."""

SEALED_BYTES = 128 * 1024
"""Sealed and handed to the kernel at once; longer pieces go in several."""


class SecureWire(Wire):
    """A wire whose bytes go through records from the handshake on, and as they are before.

    What it gives back unwritten is sealed already.
    """

    __slots__ = ("_draining", "_records", "_shaken")

    scheme: ClassVar[str] = "https"

    def __init__(self, stream: trio.SocketStream, client_stall_ms: int, tls: Renewable) -> None:
        super().__init__(stream, client_stall_ms)
        self._records = Records(tls)
        self._shaken = False
        self._draining = False

    @property
    def alpn(self) -> str | None:
        """What both agreed to speak (RFC 7301); known behind the handshake."""
        return self._records.alpn

    async def shake(self, data: bytes, until: float) -> None:
        """Agree with the client before ``until``; ``data`` came already.

        Raises ClientGone, trio.ClosedResourceError.
        """
        done = False
        while not done:
            if not data:
                raise ClientGone
            try:
                done = self._records.shake(data)
            except ssl.SSLError:
                await self.write((self._records.outgoing(),))
                raise ClientGone from None
            said = self._records.outgoing()
            if said:
                await self.write((said,))
            if not done:
                self.deadline = until
                data = await self.read()
                until = self.deadline  # it is later by what the server itself stood still
        self._shaken = True
        self.deadline = float("inf")

    async def read(self, most: int = READ_BYTES) -> bytes:
        """As Wire."""
        if self._draining or not self._shaken:
            return await super().read(most)
        data = self._records.opened(most)
        if data or self._records.ended:
            await self.give_way()
            return data
        while not (data or self._records.ended):
            raw = await super().read(most)
            if not raw:
                return b""
            self._records.feed(raw)
            data = self._records.opened(most)
        return data

    async def read_on(self, wanted: int) -> bytes:
        """As Wire."""
        most = min(max(wanted, READ_BYTES), READ_ON_BYTES)
        self._streak += most // SHARE_BYTES
        if self._streak < CALLS_PER_CHECKPOINT:
            data = self._opened_now(most)
            if data or self._records.ended:
                return data
        return await self.read(most)

    def read_now(self) -> bytes:
        """As Wire."""
        return super().read_now() if self._draining else self._opened_now(READ_BYTES)

    def _opened_now(self, most: int) -> bytes:
        data = self._records.opened(most)
        if not data and not self._records.ended:
            with suppress(OSError):
                raw = os.read(self.fd, most)
                self._records.ended = not raw
                self._records.feed(raw)
            data = self._records.opened(most)
        return data

    async def write(self, parts: Sequence[bytes]) -> None:
        """As Wire."""
        if not self._shaken:
            await super().write(parts)
            return
        data = b"".join(parts)
        for at in range(0, len(data), SEALED_BYTES):
            if at and self.hogs:
                self.torn = True
                await self.give_way()
                self.torn = False
            await super().write((self._sealed(data[at : at + SEALED_BYTES]),))

    def write_now(self, data: bytes) -> bytes:
        """As Wire."""
        return super().write_now(self._sealed(data))

    def _sealed(self, data: bytes) -> bytes:
        try:
            return self._records.sealed(data)
        except ssl.SSLError:
            self.hang_up()
            raise ClientGone from None

    def finish_writing(self) -> None:
        """As Wire. What is read from now on is not opened."""
        self._say_farewell()
        self._draining = True
        super().finish_writing()

    def close(self, *, reset: bool = False) -> None:
        """As Wire."""
        if not reset:
            self._say_farewell()
        super().close(reset=reset)

    def _say_farewell(self) -> None:
        """If the kernel has room; behind a record that was sent in part it would be noise."""
        if self._shaken and not self._draining and not self.torn:
            with suppress(OSError):
                os.write(self.fd, self._records.farewell())
