"""A store that fails on purpose, to test what stands on a store."""

import threading
import time
from collections.abc import Sequence

from eventlog.errors import LogError, StoreFailed
from eventlog.record import Appended, Entry, Head, Record
from eventlog.store import Store


class FaultyStore:
    """Passes everything on to ``inner``, except for the failures asked for.

    Any thread may ask; failures are counted over appends. :attr:`attempts` counts appends tried.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._before = 0
        self._after = 0
        self._down = False
        self._fatal: LogError | None = None
        self._delay_s = 0.0
        self.attempts = 0

    def fail_next(self, appends: int = 1) -> None:
        """The next ``appends`` appends store nothing and raise StoreFailed."""
        with self._lock:
            self._before = appends

    def fail_after_commit(self, appends: int = 1) -> None:
        """The next ``appends`` appends are stored, and raise StoreFailed all the same."""
        with self._lock:
            self._after = appends

    def go_down(self) -> None:
        """Every append raises StoreFailed until :meth:`heal`."""
        with self._lock:
            self._down = True

    def fail_with(self, error: LogError) -> None:
        """Every append raises ``error`` until :meth:`heal`."""
        with self._lock:
            self._fatal = error

    def delay(self, delay_ms: int) -> None:
        """Every append blocks its thread for ``delay_ms`` first."""
        with self._lock:
            self._delay_s = delay_ms / 1000

    def heal(self) -> None:
        """No more failures and delays."""
        with self._lock:
            self._before = self._after = 0
            self._down, self._fatal, self._delay_s = False, None, 0.0

    def append(self, stream: str, entries: Sequence[Entry], expected: int) -> Appended:
        """See :class:`eventlog.store.Store`; fails as asked for."""
        with self._lock:
            self.attempts += 1
            fatal, delay_s = self._fatal, self._delay_s
            before = self._down or self._before > 0
            after = not before and self._after > 0
            self._before -= not self._down and before
            self._after -= after
        if delay_s:
            time.sleep(delay_s)
        if fatal is not None:
            raise fatal
        if before:
            raise StoreFailed("faulty store", "failed before the commit")
        appended = self._inner.append(stream, entries, expected)
        if after:
            raise StoreFailed("faulty store", "failed after the commit")
        return appended

    def read(self, after: int = 0, limit: int = 1000) -> list[Record]:
        """See :class:`eventlog.store.LogReader`."""
        return self._inner.read(after, limit)

    def read_stream(self, stream: str, after: int = 0, limit: int = 1000) -> list[Record]:
        """See :class:`eventlog.store.LogReader`."""
        return self._inner.read_stream(stream, after, limit)

    def head(self) -> Head:
        """See :class:`eventlog.store.LogReader`."""
        return self._inner.head()

    def last_until(self, at_ms: int) -> int:
        """See :class:`eventlog.store.LogReader`."""
        return self._inner.last_until(at_ms)

    def search(
        self, kinds: Sequence[str], texts: Sequence[str], after: int, until: int, limit: int = 1000
    ) -> list[Record]:
        """See :class:`eventlog.store.LogReader`."""
        return self._inner.search(kinds, texts, after, until, limit)

    def stream_version(self, stream: str) -> int:
        """See :class:`eventlog.store.LogReader`."""
        return self._inner.stream_version(stream)

    def close(self) -> None:
        """See :class:`eventlog.store.LogReader`."""
        self._inner.close()
