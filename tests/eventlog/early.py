"""Segments as they were once made: smaller pages, and an index of stream and version."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from sqlite_utils import Database

from eventlog.schema import EARLY_PAGE_BYTES
from eventlog.segments import SegmentFile
from eventlog.sqlite_migrations import log_migrations, prepare


def early_segment(file: SegmentFile, views: Mapping[str, str]) -> None:
    """In the place of ``make_segment``."""
    make_early_segment(file.path)
    with closing(sqlite3.connect(file.path)) as connection:
        prepare(connection, file.path, views)


def make_early_segment(path: Path) -> Path:
    """One without rows; the directory is made too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {EARLY_PAGE_BYTES}")
        log_migrations.apply(Database(connection))
        told = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'events'").fetchone()
        table = told[0].replace(
            "chain BLOB NOT NULL", "chain BLOB NOT NULL, UNIQUE (stream, version)"
        )
        connection.execute("DROP TABLE events")
        connection.execute(table)
        connection.execute("VACUUM")
        connection.execute("PRAGMA journal_mode = WAL")
        found = connection.execute("SELECT type FROM sqlite_schema WHERE tbl_name = 'events'")
        assert found.fetchall() == [("table",), ("index",)]
    return path
