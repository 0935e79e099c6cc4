"""All of a log in one new SQLite file, also while it is written and retired."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from eventlog.errors import ChangedMeanwhile, LogMissing, Overtaken, StoreFailed
from eventlog.part import held_part
from eventlog.segments import SegmentFile, list_segments, sqlite_errors
from eventlog.sqlite_copy import TRIES
from eventlog.sqlite_opening import AT_REST, is_complete, seen_of, uri_of
from eventlog.sqlite_segment import DRAFT, make_segment, remove_file
from eventlog.sqlite_target import errors_of_the_source, target_errors
from eventlog.targets import refuse_the_log

PART = ".part"
"""Added to the name of one file: the directory in which it is made, held by who makes it."""


def copy_into_one_file(log: Path, target: Path, views: Mapping[str, str]) -> int:
    """All rows of a log in one new SQLite file with ``views`` over all of them; how many rows.

    Raises LogMissing, TargetIsLog, TargetTaken, Overtaken, StoreFailed, LogDamaged,
    FileExistsError, OSError.
    """
    files = list_segments(log) if log.is_dir() else []
    if not files:
        raise LogMissing(log)
    refuse_the_log(log, target)
    _refuse_what_is_there(target)
    place = target.with_name(target.name + PART)
    draft = place / target.name
    with ExitStack() as holding:
        with target_errors(target):
            holding.enter_context(held_part(place))
        _refuse_what_is_there(target)  # asked again: who held the place may have made it
        holding.callback(_remove_drafts, draft)
        with target_errors(target):
            rows = _gather_what_is_left(log, target, draft, views)
            draft.rename(target)
    return rows


def _remove_drafts(draft: Path) -> None:
    with suppress(OSError):  # then they stay, and the next copy to this target removes them
        remove_file(draft)
        remove_file(draft.with_name(draft.name + DRAFT))


def _refuse_what_is_there(target: Path) -> None:
    if target.exists():
        raise FileExistsError(f"{target} is there already: give a name that is free")


def _gather_what_is_left(log: Path, target: Path, draft: Path, views: Mapping[str, str]) -> int:
    """Begin anew where a segment is retired meanwhile: a file has no hole."""
    for _ in range(TRIES):
        files = list_segments(log)
        try:
            return _gather(files, draft, views)
        except ChangedMeanwhile:
            continue
        except (StoreFailed, FileNotFoundError):
            if all(file.path.exists() for file in files):
                raise
    raise Overtaken(log, target, 0, files[0].first)


def _gather(files: Sequence[SegmentFile], draft: Path, views: Mapping[str, str]) -> int:
    remove_file(draft)  # of a copy that was killed
    make_segment(SegmentFile(0, draft), views)
    with closing(sqlite3.connect(draft, isolation_level=None, uri=True)) as writing:
        writing.execute("PRAGMA journal_mode = DELETE").fetchall()
        for file in files:
            at_rest = is_complete(file.path)
            seen = seen_of(file.path) if at_rest else None
            source = uri_of(file.path, AT_REST if at_rest else "mode=ro")
            with sqlite_errors(file.path):
                writing.execute("ATTACH ? AS part", (source,))
                writing.execute("SELECT count(*) FROM part.sqlite_schema").fetchall()
            with errors_of_the_source(file.path):
                writing.execute("INSERT INTO main.events SELECT * FROM part.events")
            writing.execute("DETACH part")
            if seen is not None and file.path.exists() and seen_of(file.path) != seen:
                raise ChangedMeanwhile(file.path)
        rows: int = writing.execute("SELECT count(*) FROM events").fetchone()[0]
    return rows
