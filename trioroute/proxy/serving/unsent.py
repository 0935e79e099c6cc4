"""What has to leave over a connection, in order, whoever is cancelled meanwhile."""

import trio

from trioroute.proxy.serving.wire import ClientGone, Wire

MOST_BYTES = 1024 * 1024
"""Kept for a client that takes nothing. Bodies wait outside, so it is heads and answers to frames;
who asks for more of them than this reads none on purpose."""


class Unsent:
    """Everybody may ``put``; one task, ``run``, waits for the kernel in their stead.

    A request that waited for its own bytes would take them with it when it is cancelled, and with
    them the state of the header table that all later answers are written by (RFC 7541).
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._rest = b""
        """As the wire gave it back."""
        self._parts: list[bytes] = []
        self._size = 0
        self._busy = False
        self.dropped = False
        """Nothing is sent any more."""
        self._wake = trio.Event()
        self._gone = trio.Event()
        self._gone.set()

    def put(self, data: bytes) -> None:
        """Send this behind all that came before. Who is gone, or was sent too much, is hung up."""
        if self.dropped:
            return
        if self._busy:
            self._size += len(data)
            self._parts.append(data)
            if self._size > MOST_BYTES:
                self._wire.hang_up()
            return
        try:
            self._rest = self._wire.write_now(data)
        except ClientGone:
            self.drop()
            return
        if self._rest:
            self._busy = True
            self._gone = trio.Event()
            self._wake.set()

    async def gone(self) -> None:
        """Wait until the kernel has all of it; after ``drop`` until ``end``."""
        await self._gone.wait()

    def drop(self) -> None:
        """Send no more: there is nobody who takes it."""
        self.dropped = True
        self._parts.clear()
        if self._gone.is_set():
            self._gone = trio.Event()

    def end(self) -> None:
        """Let go of who waits: the connection is over."""
        self.drop()
        self._gone.set()

    async def run(self) -> None:
        """Work until cancelled, or until the client is gone."""
        try:
            while not self.dropped:
                await self._wake.wait()
                self._wake = trio.Event()
                rest, self._rest = self._rest, b""
                await self._wire.write_rest(memoryview(rest))
                while self._parts:
                    parts, self._parts, self._size = self._parts, [], 0
                    await self._wire.write(parts)
                self._busy = False
                self._gone.set()
        except ClientGone:
            self.drop()
