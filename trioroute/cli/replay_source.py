"""The log a question is about: found, opened, and what goes wrong with it in words."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path

import click

from eventlog.cut_off import CutOffReader
from eventlog.errors import LogDamaged, LogError
from eventlog.lost_end import lost_end
from eventlog.ownership import LOCK_NAME
from eventlog.reading import SqliteReader
from eventlog.segments import list_segments
from eventlog.snapshots import Snapshots
from trioroute.cli.failures import fail, warn
from trioroute.events import Stopped
from trioroute.rare_gc import rare_gc
from trioroute.replay.kept import unfound_words
from trioroute.replay.log_end import in_flight_at, log_end
from trioroute.replay.read import BadQuestion, CannotRead, NotFound, Source
from trioroute.replay.silent import silent_words
from trioroute.replay.words import plural
from trioroute.row_index import index_of

CHECK_FAILED = 1
CANNOT = 2

LIVE_S = 60
"""A router writes at every round of scrapes, which come every few seconds."""

POLITE = 10
"""The ``nice`` of a replay beside a router, as that of the process that makes snapshots."""

_SQLITE = b"SQLite format 3"


@contextmanager
def failures() -> Iterator[None]:
    """Errors become one line on stderr and an exit code."""
    try:
        yield
    except NotFound as error:
        fail(str(error), CHECK_FAILED)
    except LogDamaged as error:
        place = f"{error.where}, seq {error.seq}" if error.seq else error.where
        text = (
            f"{place}: damaged ({error.reason}): this cannot be answered from it; trioroute log "
            "verify tells what holds; --decision and --incident still tell what lies before"
        )
        fail(text, CHECK_FAILED)
    except (CannotRead, LogError) as error:
        fail(str(error), CANNOT)
    except BadQuestion as error:
        raise click.UsageError(str(error)) from None


def _look_at(log: Path) -> None:
    """Raise CannotRead for a path that is no log, saying why and which one is near."""
    if log.is_file():
        with log.open("rb") as file:
            if file.read(len(_SQLITE)) != _SQLITE:
                raise CannotRead(
                    f"no event log at {log}: the file is not of SQLite; give the log's directory "
                    "(log.path in the settings) or a log-<seq>.sqlite file of it"
                )
    elif not log.exists():
        logs = {one.parent.name for one in log.parent.glob("*/log-*.sqlite")}
        beside = sorted(logs | {one.name for one in log.parent.glob("*.sqlite")})
        near = get_close_matches(log.name, beside, 1)
        hint = f"; did you mean {log.parent / near[0]}?" if near else ""
        raise CannotRead(
            f"no event log at {log}: there is no such file or directory; give the log's directory "
            f"(log.path in the settings){hint}"
        )


def _tell_missing(reader: SqliteReader) -> None:
    """An answer that was searched for does not pass by every row: what misses is told first."""
    with suppress(LogError):  # the question itself meets it, or does not need it
        for first, last in reader.missing():
            warn(
                f"rows {first} to {last} are not in the log: what they told is missing from the "
                "answer; trioroute log verify tells what holds"
            )


def _tell_lost_end(log: Path, reader: SqliteReader) -> None:
    """That rows may have followed the last one; a damaged end is told where it is read."""
    with suppress(LogError, OSError):
        lost = lost_end(log, Stopped.__name__)
        if lost is not None:
            warn(lost.words(reader.head().seq))


def tell_lacking(source: Source, after: int = 0, until: int | None = None) -> None:
    """Of an answer that is searched for, say that rows were looked for in vain, or are missing
    inside the segments that it was searched in: those with rows ``after < seq <= until``."""
    for text in unfound_words(source):
        warn(text)
    if isinstance(source.reader, SqliteReader):
        with suppress(LogError):
            for path, count in source.reader.lacking(after, until):
                warn(
                    f"{path.name} lacks {plural(count, 'row')}: what was told there is missing "
                    "from the answer; trioroute log verify tells where"
                )


def being_written(log: Path) -> bool:
    """Whether a router wrote to it within the last minute, be it of another host or container."""
    directory = log if log.is_dir() else log.parent
    with suppress(OSError):
        if not (directory / LOCK_NAME).stat().st_size:
            return False  # it stopped in order
    for file in list_segments(directory)[-1:]:
        with suppress(OSError):
            changed_s = file.path.with_name(f"{file.path.name}-wal").stat().st_mtime
            return time.time() - changed_s < LIVE_S
    return False


def give_way() -> None:
    """Let the router go first where both want the same core. A priority that is lower already is
    kept; there is none to win back."""
    if os.getpriority(os.PRIO_PROCESS, 0) < POLITE:
        os.setpriority(os.PRIO_PROCESS, 0, POLITE)


def _place_of(log: Path) -> Path | None:
    """The directory whose lock tells who writes the end of ``log``; None for a segment that others
    follow."""
    if log.is_dir():
        return log
    newest = list_segments(log.parent)[-1:]
    last = any(one.path.name == log.name for one in newest)
    return log.parent if last or not newest else None


def tell_end(source: Source, *, open_end: bool) -> None:
    """That the log's router is gone, or writes no more; where ``open_end``, the answer tells of
    requests that have no end, also that this is not known."""
    end = log_end(source)
    if silent := silent_words(source):
        warn(silent)
    if end is not None and (end.died or end.unwritten is not None or open_end):
        warn(end.words(in_flight_at(source, end)))


def _reader_of(log: Path, proving: bool) -> SqliteReader:
    """Of a log whose end cannot be read, one that ends before; a proof goes on to the damage."""
    reader = SqliteReader.open(log)
    try:
        reader.head()
    except LogDamaged:
        if not proving:
            reader.close()
            return CutOffReader.open(log)
    return reader


@contextmanager
def opened(log: Path, lenient: bool, *, proving: bool = False) -> Iterator[Source]:
    _look_at(log)
    reader = _reader_of(log, proving)
    try:
        source = Source(reader, lenient)
        if being_written(log):
            give_way()
            source.spared_cores = 1
        source.directory = _place_of(log)
        if isinstance(reader, CutOffReader):
            source.directory = None  # how it ended is not known, whoever wrote it
            warn(
                f"{log} cannot be read behind row {reader.head().seq} ({reader.damage.reason}): the"
                " answer tells it as if it ended there; trioroute log verify tells what holds"
            )
        if log.is_dir():
            source.snapshots, source.index = Snapshots(log), index_of(log)
            source.warn = warn
            _tell_missing(reader)
            _tell_lost_end(log, reader)
        with rare_gc():
            yield source
        for kind, times in source.skipped.items():
            warn(f"passed over {plural(times, 'row')} of unknown kind {kind}")
    finally:
        reader.close()
