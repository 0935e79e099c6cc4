"""The SQLite form of a log: one table, its format number, and views for people.

Only ``UNIQUE(stream, version)`` is indexed: it carries the append's check and stream reads, and
every further index is paid for on each row written. A fold reads all rows anyway; a question by
kind or time scans one segment (at most a few hundred MiB) in well under a second.
"""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from eventlog.errors import LogDamaged, LogError, NewerLog, StoreFailed

APPLICATION_ID = 0x65766C67
"""SQLite's application_id of an event log ("evlg")."""

FORMAT = 1
"""SQLite's user_version: the log format this code writes and the newest it reads."""

log_migrations = Migrations("eventlog")


@log_migrations(name="0001_events")
def _create_events(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE events (
            seq INTEGER PRIMARY KEY,
            stream TEXT NOT NULL,
            version INTEGER NOT NULL,
            kind TEXT NOT NULL,
            schema INTEGER NOT NULL,
            at_ms INTEGER NOT NULL,
            seen INTEGER NOT NULL,
            body TEXT NOT NULL,
            chain BLOB NOT NULL,
            UNIQUE (stream, version)
        ) STRICT
        """
    )
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute("PRAGMA user_version = 1")


def prepare(connection: sqlite3.Connection, path: Path, views: Mapping[str, str]) -> None:
    """Bring ``path`` to the current format and install ``views``; writes nothing if it is newer.

    Raises NewerLog, LogDamaged (not an event log), ValueError (a view that cannot be).
    """
    check_format(connection, path)
    db = Database(connection)
    db.enable_wal()
    log_migrations.apply(db)
    install_views(db, views)


def check_format(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether ``path`` is a log with its table; false for a new, blank file.

    Raises NewerLog, or LogDamaged if it is some other SQLite database.
    """
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if application == APPLICATION_ID:
        if found > FORMAT:
            raise NewerLog(path, found, FORMAT)
        return True
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE name NOT LIKE '%sqlite_%'"
    ).fetchall()
    if application or found or tables:
        raise LogDamaged(str(path), 0, "file: a SQLite database, but not an event log")
    return False


def install_views(db: Database, views: Mapping[str, str]) -> None:
    """Create or replace the named views, each given as a SELECT over ``events``.

    Unchanged ones are left alone. Raises ValueError for a name that a table has, or SQL that SQLite
    refuses; then no view is changed.
    """
    with db.atomic():
        for name, select in views.items():
            if name in db.table_names():
                raise ValueError(f"view {name!r}: the log has a table of that name")
            try:
                db.create_view(name, select, replace=True)
                db.execute(f'SELECT * FROM "{name}" LIMIT 0')
            except sqlite3.OperationalError as exc:
                raise ValueError(f"view {name!r}: {exc}") from exc


_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})


def log_error(exc: sqlite3.Error, path: Path) -> LogError:
    """SQLite's complaint about ``path`` in this package's words: LogDamaged or StoreFailed."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if code in _DAMAGE or "Could not decode" in str(exc):
        return LogDamaged(str(path), 0, f"file: {exc}")
    return StoreFailed(str(path), f"{exc} ({getattr(exc, 'sqlite_errorname', 'sqlite')})")
