"""What a store promises: the clauses E1 to E10, tested for any backend by conformance.py."""

from collections.abc import Sequence
from typing import Protocol

from eventlog.errors import (
    JournalFull,
    LogDamaged,
    LogError,
    LogMissing,
    LogOwned,
    NewerLog,
    StoreClosed,
    StoreFailed,
    VersionConflict,
)
from eventlog.record import Appended, Entry, Head, Record

__all__ = [
    "JournalFull",
    "LogDamaged",
    "LogError",
    "LogMissing",
    "LogOwned",
    "LogReader",
    "NewerLog",
    "Store",
    "StoreClosed",
    "StoreFailed",
    "VersionConflict",
    "check_page",
]


class LogReader(Protocol):
    """The reading half of a store; clauses E4 and E6 to E10 of :class:`Store` hold for it."""

    def read(self, after: int = 0, limit: int = 1000) -> list[Record]:
        """Up to ``limit`` rows with ``seq > after``, by seq."""

    def read_stream(self, stream: str, after: int = 0, limit: int = 1000) -> list[Record]:
        """Up to ``limit`` rows of one stream with ``version > after``, by version."""

    def head(self) -> Head:
        """The last row's seq and chain."""

    def last_until(self, at_ms: int) -> int:
        """The seq of the last row that is not later than ``at_ms``, 0 if there is none.

        Where the writer's clock was set back, a store may look no further than the newest stretch
        of rows that begins no later.
        """

    def search(
        self, kinds: Sequence[str], texts: Sequence[str], after: int, until: int, limit: int = 1000
    ) -> list[Record]:
        """Up to ``limit`` rows with ``after < seq <= until`` of one of ``kinds``, by seq, with one
        of ``texts`` in their body. Reads all rows there are; missing ones are not told."""

    def stream_version(self, stream: str) -> int:
        """The version of the stream's last row, 0 if it has none."""

    def close(self) -> None:
        """Let go of files and locks. May be called again."""


class Store(LogReader, Protocol):
    """An append-only log of several streams with one total order.

    Methods are plain functions that may block on a disk; any thread may call them.

    E1   ``append`` is all or nothing.
    E2   It returns the first and last seq; repeating the same entries at the same version answers
         "already there" (``Appended.already``) and stores nothing.
    E3   A mismatch raises VersionConflict with the actual version, and stores nothing.
    E4   ``seq`` is total, gapless, assigned at append by the one writer, and visible in order: who
         saw n has seen all below n.
    E5   Returned means durable at the stated level.
    E6   ``read(after, limit)`` is paged and holds no lock between pages.
    E7   ``follow(after)`` gives everything once, in order, across catch-up and live.
    E8   Bytes come back unchanged and chained.
    E9   ``head()`` is cheap: its cost does not grow with the log.
    E10  Closed or failed stores raise, never drop.
    """

    def append(self, stream: str, entries: Sequence[Entry], expected: int) -> Appended:
        """Store ``entries`` after version ``expected`` of ``stream`` (0 = the stream is empty).

        Raises VersionConflict, StoreFailed (may be repeated), StoreClosed; ValueError for an empty
        append, a body that is not UTF-8, or an integer beyond 64 bits.
        """


def check_page(after: int, limit: int) -> None:
    """Raise ValueError for a page that cannot be meant."""
    if after < 0 or limit < 1:
        raise ValueError(f"read(after={after}, limit={limit}): after is at least 0, limit 1")
