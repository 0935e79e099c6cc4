"""Where a simulated router's events go: counted and let go, or into a real log."""

from collections.abc import Sequence
from pathlib import Path

from eventlog.record import Entry
from eventlog.sqlite import SqliteStore
from trioroute.events.views import VIEWS
from trioroute.simulate.script import SECRET

BATCH = 2000
ROUTER = "r1"
STREAM = f"router/{ROUTER}"


class LogInTheWay(ValueError):
    """Two runs in one log would be one router's history."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory} holds a log already: give a directory without one")


class CountingLog:
    """Takes everything and keeps nothing but the number."""

    def __init__(self) -> None:
        self.version = 0

    def offer(self, entries: Sequence[Entry], *, must_take: bool = False) -> int:
        first = self.version + 1
        self.version += len(entries)
        return first


class StoredLog(CountingLog):
    """Writes a log directory that ``replay`` reads like a live router's, sessions by name too."""

    def __init__(self, directory: Path) -> None:
        """Raises LogError for a directory that is in use, and LogInTheWay for one with a log."""
        super().__init__()
        self._store = SqliteStore.open(directory, sync="normal", views=VIEWS)
        self._batch: list[Entry] = []
        self._written = 0
        if self._store.head().seq:
            self._store.close()
            raise LogInTheWay(directory)
        key = directory / "key"
        key.touch(mode=0o600)
        key.write_text(SECRET.hex() + "\n", "ascii")

    def offer(self, entries: Sequence[Entry], *, must_take: bool = False) -> int:
        self._batch.extend(entries)
        if len(self._batch) >= BATCH:
            self._flush()
        return super().offer(entries)

    def close(self) -> None:
        """Write what is left and give the directory up."""
        self._flush()
        self._store.close()

    def _flush(self) -> None:
        if self._batch:
            self._store.append(STREAM, self._batch, self._written)
            self._written += len(self._batch)
            self._batch = []
