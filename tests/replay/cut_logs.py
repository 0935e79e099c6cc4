"""Logs with snapshots, and their judging in stretches compared with the walk from the first row."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import Any

import attrs
import pytest

from eventlog.record import Entry
from eventlog.snapshots import Snapshot, Snapshots
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from tests.replay.rig import STREAM
from trioroute.cli.replay_reports import _verified_data
from trioroute.replay import joined, stretches
from trioroute.replay.read import CannotRead, Source
from trioroute.replay.verify import verify
from trioroute.snapshot import FOLD, LogFold, begin_fold, dump, rows_after

EVERY = 150
"""Rows between two snapshots of the logs here."""


def write_log(log: Path, entries: Sequence[Entry], other: Sequence[Entry] = ()) -> Path:
    """A log of several segments; ``other`` are the rows of a second router, between the first's."""
    blocks = {STREAM: _blocks(entries), "router/r2": _blocks(other)}
    with closing(SqliteStore.open(log, sync="normal", limits=SegmentLimits(100_000))) as store:
        for pair in zip_longest(*blocks.values(), fillvalue=()):
            for stream, rows in zip(blocks, pair, strict=True):
                if rows:
                    store.append(stream, rows, store.stream_version(stream))
    return log


def _blocks(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Some hundred rows each; a decision and its pins are written together."""
    begin = 0
    for n, entry in enumerate(entries):
        if n - begin >= 100 and entry.kind not in stretches._AFTER_ANOTHER:
            yield entries[begin:n]
            begin = n
    yield entries[begin:]


def fold_of(log: Path, until: int) -> LogFold:
    with SqliteReader.open(log) as reader:
        fold = begin_fold(reader, Snapshots(log), until=until)
        for record in rows_after(reader, fold.head.seq, until):
            fold.take(record)
    return fold


def keep_snapshots(log: Path, every: int = EVERY) -> list[int]:
    """Snapshots by the way a router makes them; after which rows."""
    fold, kept = LogFold(), []
    with SqliteReader.open(log) as reader:
        for record in rows_after(reader, 0, reader.head().seq):
            fold.take(record)
            if record.seq % every == 0:
                Snapshots(log).write(Snapshot(fold.head, FOLD, dump(fold.states)))
                kept.append(record.seq)
    return kept


@attrs.define
class Cut:
    """How a log was judged: what was found, and the stretches that were judged a second time."""

    found: Any
    again: list[int] = attrs.field(factory=list)
    cut: int = 0
    false: list[int] = attrs.field(factory=list)


def judged(log: Path, processes: int, *, today: bool = False, lenient: bool = False) -> Cut:
    with SqliteReader.open(log) as reader:
        source = Source(reader, lenient, Snapshots(log))
        try:
            found = verify(source, rules_of_today=today, processes=processes)
        except CannotRead as error:
            return Cut(str(error))
        return Cut((_verified_data(found), source.skipped), false=found.false_snapshots)


def in_stretches(log: Path, patch: pytest.MonkeyPatch, **how: bool) -> Cut:
    """Judged with the jobs done one after the other in this process, compared with the walk."""
    seen, again = [], []

    def one_by_one(
        source: Source, work: Any, jobs: Iterable[tuple[Any, ...]], _: int
    ) -> Iterator[Any]:
        with SqliteReader.open(log) as reader:
            own = Source(reader, source.lenient, Snapshots(log))
            for job in jobs:
                seen.append(job)
                yield work(own, *job)

    def judge_here(self: Any, stretch: stretches.Stretch, progress: Any) -> None:
        again.append(stretch.snapshot)
        before(self, stretch, progress)

    before = joined._Join._judge_here
    with patch.context() as patched:
        patched.setattr(joined, "shared_out", one_by_one)
        patched.setattr(joined._Join, "_judge_here", judge_here)
        found = judged(log, 2, **how)
    assert found.found == judged(log, 0, **how).found
    return attrs.evolve(found, again=again, cut=len(seen))


def log_of(tmp_path: Path, entries: Sequence[Entry], every: int = EVERY) -> Path:
    log = write_log(tmp_path / "log", entries)
    keep_snapshots(log, every)
    return log


def decisions(entries: Sequence[Entry]) -> list[int]:
    return [n for n, entry in enumerate(entries, 1) if entry.kind == "Dispatched"]


def rewrite(log: Path, seq: int, **fields: Any) -> None:
    """A whole snapshot in the place of another, of a state with other fields."""
    fold = fold_of(log, seq)
    state = fold.states[STREAM]
    for name, value in fields.items():
        setattr(state, name, value)
    Snapshots(log).write(Snapshot(fold.head, FOLD, dump(fold.states)))
