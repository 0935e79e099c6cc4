"""The SQLite form of a log: its format number, and what SQLite's errors mean.

The table and the views are made in sqlite_migrations.py.
"""

import sqlite3
from pathlib import Path

from eventlog.errors import LogDamaged, LogError, NewerLog, NoRoom, StoreFailed

APPLICATION_ID = 0x65766C67
"""SQLite's application_id of an event log ("evlg")."""

FORMAT = 1
"""SQLite's user_version: the log format this code writes and the newest it reads."""

PAGE_BYTES = 8192
"""The pages of a segment that is made today. What is left over at their ends is half of what it is
with early ones, and a small commit writes one of them, which is no more than an early one and that
of its index."""

EARLY_PAGE_BYTES = 4096
"""The pages of segments that have an index of stream and version as well; they stay as they are."""

PAGE_SIZES = (PAGE_BYTES, EARLY_PAGE_BYTES)


def check_format(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether ``path`` is a log with its table; false for a new, blank file.

    Raises NewerLog, or LogDamaged if it is some other SQLite database.
    """
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if application == APPLICATION_ID:
        if found > FORMAT:
            raise NewerLog(path, found, FORMAT)
        if found < 1:
            raise LogDamaged(
                str(path), 0, f"file: it says log format {found}, there is none below 1"
            )
        return True
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE name NOT LIKE '%sqlite_%'"
    ).fetchall()
    if application or found or tables:
        raise LogDamaged(str(path), 0, "file: a SQLite database, but not an event log")
    return False


_DAMAGE = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_TOOBIG}
)


_DAMAGE_WORDS = ("Could not decode", "unsupported file format", "no such table", "no such column")
"""Where SQLite has no code of its own for it: the schema is not what was written."""


def log_error(exc: sqlite3.Error, path: Path) -> LogError:
    """SQLite's complaint about ``path`` in this package's words: LogDamaged or StoreFailed."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if code in _DAMAGE or any(words in str(exc) for words in _DAMAGE_WORDS):
        return LogDamaged(str(path), 0, f"file: {exc}")
    kind = NoRoom if code == sqlite3.SQLITE_FULL else StoreFailed
    return kind(str(path), f"{exc} ({getattr(exc, 'sqlite_errorname', 'sqlite')})")
