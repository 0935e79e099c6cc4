"""Every store against every clause."""

from pathlib import Path

from eventlog.conformance import StoreConformance
from eventlog.faults import FaultyStore
from eventlog.memory import MemoryStore
from eventlog.sqlite import SegmentLimits, SqliteStore
from eventlog.store import Store
from tests.eventlog.early import make_early_segment


class TestMemoryStore(StoreConformance):
    keeps = False

    def open(self, directory: Path) -> Store:
        return MemoryStore()


class TestSqliteStoreSyncFull(StoreConformance):
    def open(self, directory: Path) -> Store:
        return SqliteStore.open(directory / "log", sync="full")


class TestSqliteStoreSyncNormal(StoreConformance):
    def open(self, directory: Path) -> Store:
        return SqliteStore.open(directory / "log", sync="normal")


class TestSqliteStoreWithASegmentForEachAppend(StoreConformance):
    def open(self, directory: Path) -> Store:
        limits = SegmentLimits(size_bytes=1)
        return SqliteStore.open(directory / "log", sync="normal", limits=limits)


class TestSqliteStoreThatGoesOnInAnEarlySegment(StoreConformance):
    def open(self, directory: Path) -> Store:
        if not (directory / "log").exists():
            make_early_segment(directory / "log" / "log-1.sqlite")
        return SqliteStore.open(directory / "log", sync="normal")


class TestFaultyStoreWithoutFaults(StoreConformance):
    def open(self, directory: Path) -> Store:
        return FaultyStore(SqliteStore.open(directory / "log", sync="normal"))
