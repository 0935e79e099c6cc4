"""A store in memory: for tests in virtual time and for logs nobody keeps."""

import threading
from collections.abc import Sequence
from itertools import islice

from eventlog.chain import chain_entries, check_entries
from eventlog.errors import StoreClosed, VersionConflict
from eventlog.record import Appended, Entry, Head, Record, same_entries
from eventlog.store import check_page


class MemoryStore:
    """Keeps every row in a list; passes every clause of :class:`eventlog.store.Store`.

    Durable means "in this process". It grows without bound, as the log it stands for does.
    """

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._streams: dict[str, list[Record]] = {}
        self._head = Head()
        self._closed = False
        self._lock = threading.Lock()

    def append(self, stream: str, entries: Sequence[Entry], expected: int) -> Appended:
        """See :class:`eventlog.store.Store`; never raises StoreFailed."""
        with self._lock:
            self._check_open()
            check_entries(stream, entries, expected)
            rows = self._streams.get(stream, [])
            if len(rows) != expected:
                return _already(stream, rows, entries, expected)
            first = self._head.seq + 1
            chains = chain_entries(self._head, stream, expected, entries)
            added = [
                Record(
                    first + i,
                    stream,
                    expected + 1 + i,
                    entry.kind,
                    entry.schema,
                    entry.at_ms,
                    entry.seen,
                    entry.body,
                    chains[i],
                )
                for i, entry in enumerate(entries)
            ]
            self._records += added
            self._streams.setdefault(stream, []).extend(added)
            self._head = Head(added[-1].seq, added[-1].chain)
            return Appended(first, added[-1].seq)

    def read(self, after: int = 0, limit: int = 1000) -> list[Record]:
        """See :class:`eventlog.store.LogReader`."""
        check_page(after, limit)
        with self._lock:
            self._check_open()
            return self._records[after : after + limit]

    def read_stream(self, stream: str, after: int = 0, limit: int = 1000) -> list[Record]:
        """See :class:`eventlog.store.LogReader`."""
        check_page(after, limit)
        with self._lock:
            self._check_open()
            return self._streams.get(stream, [])[after : after + limit]

    def head(self) -> Head:
        """See :class:`eventlog.store.LogReader`."""
        with self._lock:
            self._check_open()
            return self._head

    def last_until(self, at_ms: int) -> int:
        """See :class:`eventlog.store.LogReader`."""
        with self._lock:
            self._check_open()
            found = (record.seq for record in reversed(self._records) if record.at_ms <= at_ms)
            return next(found, 0)

    def search(
        self, kinds: Sequence[str], texts: Sequence[str], after: int, until: int, limit: int = 1000
    ) -> list[Record]:
        """See :class:`eventlog.store.LogReader`."""
        check_page(after, limit)
        with self._lock:
            self._check_open()
            wanted = [text.encode() for text in texts]
            found = (
                row
                for row in self._records[after:until]
                if row.kind in kinds and any(text in row.body for text in wanted)
            )
            return list(islice(found, limit))

    def stream_version(self, stream: str) -> int:
        """See :class:`eventlog.store.LogReader`."""
        with self._lock:
            self._check_open()
            return len(self._streams.get(stream, []))

    def close(self) -> None:
        """Refuse everything from now on."""
        with self._lock:
            self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the memory store")


def _already(stream: str, rows: list[Record], entries: Sequence[Entry], expected: int) -> Appended:
    there = rows[expected : expected + len(entries)]
    if same_entries(there, entries):
        return Appended(there[0].seq, there[-1].seq, already=True)
    raise VersionConflict(stream, expected, len(rows))
