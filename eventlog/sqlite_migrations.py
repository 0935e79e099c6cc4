"""Making and changing the SQLite form of a log: one table, and views for people.

Apart from schema.py, for readers need none of it, and sqlite_utils takes a tenth of a second to be
imported.

Nothing is indexed but seq: every further index is paid for on each row written. Rows of a stream
are found by halving (streams.py). A fold reads all rows anyway; a question by kind or time scans
one segment (at most a few hundred MiB) in well under a second.

Early segments have a UNIQUE(stream, version) and smaller pages. They are read and written on as
they are, and a segment made today is read and written by what made those.
"""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from eventlog.schema import APPLICATION_ID, PAGE_BYTES, check_format

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
            chain BLOB NOT NULL
        ) STRICT
        """
    )
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute("PRAGMA user_version = 1")


def prepare(connection: sqlite3.Connection, path: Path, views: Mapping[str, str]) -> None:
    """Bring ``path`` to the current format and install ``views``; writes nothing if it is newer.

    Raises NewerLog, LogDamaged (not an event log), ValueError (a view that cannot be).
    """
    if not check_format(connection, path):
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    db = Database(connection)
    db.enable_wal()
    log_migrations.apply(db)
    install_views(db, views)


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
