"""A request body as it comes in, piece by piece, whole in memory once."""

import sys
from io import BytesIO

ROOM_BYTES = 1 << 20
"""A body that has brought so much is believed to have the length that it told."""

GROWTH = 64
"""Of a body that told no length: room for 64 MiB, most of which stays a promise of the kernel."""


class Gathered:
    """Grows in place and is handed over without a copy: parts that are joined at the end would take
    twice the memory.

    Room for a large body is made at once, by memory that the kernel gives as it is written. Growing
    bit by bit moves all of it now and then: 20 MB in ten milliseconds.
    """

    __slots__ = ("_bytes", "_room", "_told", "size")

    def __init__(self, told: int = 0) -> None:
        """``told``: its length, where the client told it."""
        self._bytes = BytesIO()
        self._told = told
        self._room = ROOM_BYTES
        self.size = 0

    def add(self, data: bytes | memoryview) -> None:
        """The next bytes of it."""
        self.size += len(data)
        if self.size > self._room:
            self._make_room()
        self._bytes.write(data)

    def whole(self) -> bytes:
        """All of it; then this is done with."""
        self._bytes.truncate()
        return self._bytes.getvalue()

    def _make_room(self) -> None:
        self._room = max(self._room * GROWTH, self.size)
        if self._told >= self.size:
            self._room = self._told
        try:
            roomy = BytesIO(bytes(self._room))
        except MemoryError:  # where the kernel promises no more than it has (vm.overcommit_memory)
            self._room = sys.maxsize
            return
        roomy.write(self._bytes.getbuffer()[: self._bytes.tell()])
        self._bytes = roomy
