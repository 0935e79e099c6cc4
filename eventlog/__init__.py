"""An append-only event log on Trio, for any program: it knows nothing of what it stores.

The pieces, and who may import what: ``record``, ``errors``, ``store`` (the contract), ``chain`` and
``memory`` stand on attrs and the standard library; sqlite3 is used in ``schema``, ``segments``,
``sqlite`` and ``sqlite_segment`` only; Trio in ``journal``, ``inline`` and ``follow`` only. Nothing
here imports a program that uses it. This file re-exports what needs neither Trio nor SQLite; take
``Journal``, ``follow``, ``SqliteStore`` and ``SqliteReader`` from their modules.
"""

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
from eventlog.memory import MemoryStore
from eventlog.record import GENESIS, Appended, Entry, Head, Record
from eventlog.store import LogReader, Store

__all__ = [
    "GENESIS",
    "Appended",
    "Entry",
    "Head",
    "JournalFull",
    "LogDamaged",
    "LogError",
    "LogMissing",
    "LogOwned",
    "LogReader",
    "MemoryStore",
    "NewerLog",
    "Record",
    "Store",
    "StoreClosed",
    "StoreFailed",
    "VersionConflict",
]
