"""TLS without I/O: bytes of the socket in, bytes of the client out, and back.

OpenSSL gets one record after the other, for what it makes of those that bring nothing could not be
bounded otherwise.
"""

import ssl
from contextlib import suppress

from trioroute.proxy.serving.tls import Renewable

RECORD_HEAD = 5
RECORD_BYTES = 16 * 1024
"""The most that one record brings (RFC 8446 section 5.1)."""
RECORDS_A_READ = 32
"""Opened before others run. One of a single byte costs 4 µs, and whoever sends it little more."""
BARREN_RECORDS = 8
"""So many without a byte for us in a row end a connection, and one read takes no more of them: a
key update of 27 bytes costs up to 50 µs (crypto/tls of Go has such a bound too)."""
UNASKED_BYTES = 64 * 1024
"""What a client's records may make us owe it (answers to key updates) before it is given up."""


class Records:
    """The server's side of one connection."""

    __slots__ = ("_at", "_barren", "_incoming", "_outgoing", "_raw", "_tls", "ended")

    def __init__(self, tls: Renewable) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = tls.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._raw = b""
        self._at = 0
        """Behind the records that OpenSSL has."""
        self._barren = 0
        self.ended = False
        """Nothing more can be opened: the client said so, or its bytes are no TLS."""

    @property
    def alpn(self) -> str | None:
        """What both agreed on (RFC 7301); known behind the handshake."""
        return self._tls.selected_alpn_protocol()

    def shake(self, data: bytes) -> bool:
        """Go on with the handshake; True when it is done. Raises ssl.SSLError."""
        self.feed(data)
        while self._next():
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                continue
            return True
        return False

    def feed(self, data: bytes) -> None:
        """Bytes of the socket, to be opened, when all records before are."""
        self._raw = self._raw[self._at :] + data
        self._at = 0

    def opened(self, most: int) -> bytes:
        """At most so many bytes of a few of the records that are here; empty where none is."""
        parts: list[bytes] = []
        barren = 0
        for _ in range(RECORDS_A_READ):
            data = self._open(most) if self._tls.pending() else b""
            while not (data or self.ended or barren == BARREN_RECORDS) and self._next():
                data = self._open(most)
                barren += not data
                self._barren = 0 if data else self._barren + 1
                if self._barren == BARREN_RECORDS:
                    self.ended = True
            if not data:
                break
            parts.append(data)
            most -= len(data)
            if most <= 0:
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _open(self, most: int) -> bytes:
        """What is left of the record that OpenSSL has."""
        try:
            data = self._tls.read(min(most, RECORD_BYTES))
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError:
            data = b""
        self.ended = not data or self._outgoing.pending > UNASKED_BYTES
        return data

    def _next(self) -> bool:
        """Give OpenSSL one more record, if it is here whole; its size is for OpenSSL to judge."""
        at, have = self._at, len(self._raw) - self._at
        if have < RECORD_HEAD:
            return False
        size = RECORD_HEAD + int.from_bytes(self._raw[at + 3 : at + RECORD_HEAD], "big")
        if have < size and size <= RECORD_HEAD + RECORD_BYTES + 2048:
            return False
        with memoryview(self._raw) as view:
            self._incoming.write(view[at : at + size])
        self._at = at + size
        return True

    def sealed(self, data: bytes | memoryview) -> bytes:
        """The records of these bytes, behind what the handshake still has to say.

        Raises ssl.SSLError.
        """
        with memoryview(data) as left:
            at = 0
            while at < len(left):
                at += self._tls.write(left[at:])
        return self._outgoing.read()

    def outgoing(self) -> bytes:
        """What the handshake has to say."""
        return self._outgoing.read()

    def farewell(self) -> bytes:
        """The record that tells a whole ending from a cut one (close_notify)."""
        with suppress(ssl.SSLError):  # it wants to read the client's own, which nobody waits for
            self._tls.unwrap()
        return self._outgoing.read()
