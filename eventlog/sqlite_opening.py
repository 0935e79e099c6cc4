"""Opening a segment for reading: nothing is written beside it, and no room on its disk is needed.

SQLite finds its way through a write-ahead log by a file ``-shm`` beside it, which it makes, and
even a reader leaves both files behind. That is right beside a writer, whose files are there. A
segment without a write-ahead log is complete by itself and read as one that cannot change. One
that a dead router left with a write-ahead log, where no ``-shm`` can be made (disk full, no right
to write, read-only media), is read from a copy elsewhere. Exclusive locking, which needs no
``-shm``, lost: it needs the right to write, and keeps a router from starting.
"""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import attrs

from eventlog.errors import NO_ROOM, StoreFailed
from eventlog.schema import PAGE_SIZES, check_format

BUSY_TIMEOUT_S = 1.0
"""How long a statement waits for a lock; the journal repeats a write that found no room."""

MEMORY = Path("/dev/shm")
"""Where a copy goes that finds no room among temporary files."""

AT_REST = "mode=ro&immutable=1"
"""Without the mode SQLite would make the file anew that is retired just now."""

COPY_TRIES = 3
HEADER_BYTES = 100

_NO_PLACE = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})
_NO_SHM = frozenset(
    {sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP}
)

Seen = tuple[object, ...]
"""What the file system says of a segment and its write-ahead log: another one if they changed."""


@attrs.frozen
class Opened:
    """A connection for reading, ``has_table`` telling whether the file is more than blank.

    ``seen`` is what was there where the connection does not see changes by itself, else None.
    """

    connection: sqlite3.Connection
    has_table: bool
    seen: Seen | None = None

    def outdated(self, path: Path) -> bool:
        """Whether the file was opened as one that cannot change, and did."""
        if self.seen is None:
            return False
        try:
            return seen_of(path) != self.seen
        except FileNotFoundError:  # retired: what is open is whole
            return False


def open_to_read(path: Path) -> Opened:
    """Open one segment. Raises NewerLog, LogDamaged, StoreFailed, sqlite3.Error, OSError."""
    seen = seen_of(path)
    if is_complete(path):
        return _connect(path, AT_REST, seen)
    try:
        return _connect(path, "mode=ro", None)
    except sqlite3.OperationalError as exc:
        code = exc.sqlite_errorcode
        if code & 0xFF not in _NO_PLACE and code not in _NO_SHM:
            raise
        if _wal_bytes(path):
            return _open_copy(path, exc)
        return _connect(path, AT_REST, seen)


def is_complete(path: Path) -> bool:
    """Whether SQLite keeps nothing beside the file that belongs to it."""
    return not any(os.path.exists(f"{path}{suffix}") for suffix in ("-wal", "-journal"))  # noqa: PTH110  # four times as fast


def seen_of(path: Path) -> Seen:
    """See ``Seen``. Raises FileNotFoundError."""
    file = os.stat(path)  # noqa: PTH116  # asked after each query
    seen: Seen = (file.st_ino, file.st_size, file.st_mtime_ns)
    try:
        wal = os.stat(f"{path}-wal")  # noqa: PTH116  # the same
    except FileNotFoundError:
        return seen
    return (*seen, wal.st_size, wal.st_mtime_ns)


def uri_of(path: Path, how: str) -> str:
    """The name under which SQLite opens the file with these parameters."""
    return f"{path.absolute().as_uri()}?{how}"


def _connect(path: Path, how: str, seen: Seen | None) -> Opened:
    connection = sqlite3.connect(
        uri_of(path, how),
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        if how == AT_REST and is_torn(path):
            # Else SQLite reads nothing at all of it; pages that are not there are damage still.
            connection.execute("PRAGMA writable_schema = ON")
        return Opened(connection, check_format(connection, path), seen)
    except BaseException:
        connection.close()
        raise


def is_torn(path: Path) -> bool:
    """Whether a file is shorter than its header says, and not by so much that it holds no row."""
    with path.open("rb") as file:
        header, size = file.read(HEADER_BYTES), file.seek(0, 2)
    page_bytes = int.from_bytes(header[16:18])
    pages = int.from_bytes(header[28:32])
    return page_bytes in PAGE_SIZES and page_bytes < size < pages * page_bytes


def _wal_bytes(path: Path) -> int:
    try:
        return Path(f"{path}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def _open_copy(path: Path, why: sqlite3.OperationalError) -> Opened:
    """Open what file and write-ahead log say together, in a copy that has no name any more.

    Raises ``why`` where they cannot be copied, StoreFailed where a copy finds no room.
    """
    places = dict.fromkeys((Path(tempfile.gettempdir()), MEMORY))
    for place in places:
        try:
            for _ in range(COPY_TRIES):
                if (opened := _try_copy(path, place)) is not None:
                    return opened
            raise why
        except (OSError, sqlite3.OperationalError) as exc:
            if exc is why or not _is_no_room(exc):
                raise why from exc
    size_mib = (path.stat().st_size + _wal_bytes(path) >> 20) + 1
    raise StoreFailed(
        str(path),
        f"SQLite finds no room for {path.name}-shm beside it ({why.sqlite_errorname}), a copy of"
        f" {2 * size_mib} MiB none in {' or '.join(map(str, places))}: free room on one of these"
        " disks, or name a directory that has some in the environment, TMPDIR",
    )


def _is_no_room(exc: OSError | sqlite3.OperationalError) -> bool:
    if isinstance(exc, OSError):
        return exc.errno in NO_ROOM or isinstance(exc, FileNotFoundError)
    return exc.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}


def _try_copy(path: Path, place: Path) -> Opened | None:
    """None if the files were written to meanwhile: beside a live writer this is not the way."""
    with tempfile.TemporaryDirectory(prefix="eventlog-", dir=place) as directory:
        copy = Path(directory) / path.name
        before = seen_of(path)
        shutil.copyfile(path, copy)
        shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        if seen_of(path) != before:
            return None
        with closing(sqlite3.connect(copy, isolation_level=None)) as folding:
            folding.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            folding.execute("PRAGMA journal_mode = DELETE").fetchall()
        return _connect(copy, AT_REST, before)
