"""A long log that is good is checked in parts by several processes, and told as by one walk."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

from eventlog.segments import list_segments
from eventlog.snapshots import Snapshots
from tests.replay.cut_logs import EVERY, keep_snapshots, log_of, rewrite, write_log
from tests.replay.rig import busy_day, changed
from tests.rig import Rig
from trioroute.cli.log import parts
from trioroute.cli.log.parts import InParts, check_in_parts
from trioroute.cli.log.root import log_group
from trioroute.cli.log.verify import _checked
from trioroute.replay.read import Source


@pytest.fixture(scope="module")
def day() -> Rig:
    return busy_day(700)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", EVERY)
    monkeypatch.setattr(parts, "WORTH_ROWS", 4 * EVERY)
    monkeypatch.setattr(parts, "free_cores", lambda _: 2)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The jobs, done by this process."""
    seen: list[Any] = []

    def one_by_one(
        source: Source, work: Callable[..., Any], jobs: Iterable[tuple[Any, ...]], _: int
    ) -> Iterator[Any]:
        for job in jobs:
            seen.append(job[0])
            yield work(source, *job)

    monkeypatch.setattr(parts, "in_order", one_by_one)
    return seen


def in_parts(log: Path) -> InParts | None:
    return check_in_parts(log, lambda done, total: None, spared_cores=0)


def in_one_walk(log: Path, patch: pytest.MonkeyPatch) -> InParts:
    with patch.context() as patched:
        patched.setattr(parts, "WORTH_ROWS", 1 << 40)
        return _checked(log)


def alike(one: InParts | None, other: InParts) -> bool:
    return one is not None and attrs.astuple(one) == attrs.astuple(other)


def test_processes_find_what_one_walk_finds(
    tmp_path: Path, day: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(tmp_path, day.log.entries)
    found = in_parts(log)
    assert alike(found, in_one_walk(log, monkeypatch))
    assert found is not None
    assert (found.good, found.checked.bad) == (2, [])


def test_a_digest_that_is_wrong_is_told(
    tmp_path: Path, day: Rig, here: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = [n for n, entry in enumerate(day.log.entries, 1) if entry.kind == "Checked"][1]
    log = log_of(tmp_path, changed(day.log.entries, at, digest=7))
    found = in_parts(log)
    assert alike(found, in_one_walk(log, monkeypatch))
    assert found is not None
    assert (found.good, found.bad) == (1, [at])
    assert len(here) > 8


def test_a_log_without_its_beginning_is_checked_from_the_snapshot_there(
    tmp_path: Path, day: Rig, here: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path / "log", day.log.entries)
    first, second = list_segments(log)[:2]
    keep_snapshots(log, second.first - 1)
    keep_snapshots(log)
    first.path.unlink()
    found = in_parts(log)
    assert alike(found, in_one_walk(log, monkeypatch))
    assert found is not None
    assert (found.checked.begins_at, found.checked.anchored) == (second.first, True)
    Snapshots(log).path(second.first - 1).unlink()
    here.clear()
    assert in_parts(log) is None
    assert here == []


def test_a_snapshot_that_does_not_tell_what_the_rows_give_proves_nothing(
    tmp_path: Path, day: Rig, here: list[Any]
) -> None:
    log = log_of(tmp_path, day.log.entries)
    rewrite(log, 3 * EVERY, checked_at=999)
    assert in_parts(log) is None
    assert here[-1].until == 3 * EVERY


def test_processes_that_end_early_prove_nothing(
    tmp_path: Path, day: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(tmp_path, day.log.entries)

    def ends_early(source: Source, work: Callable[..., Any], jobs: Any, _: int) -> Iterator[Any]:
        for job in list(jobs)[:-1]:
            yield work(source, *job)

    monkeypatch.setattr(parts, "in_order", ends_early)
    assert in_parts(log) is None


def test_a_log_with_few_rows_or_snapshots_is_walked(
    tmp_path: Path, day: Rig, here: list[Any]
) -> None:
    few = write_log(tmp_path / "few", day.log.entries[: 3 * EVERY])
    keep_snapshots(few, 50)
    bare = write_log(tmp_path / "bare", day.log.entries)
    for log in (tmp_path / "nothing", tmp_path, few, bare, bare / "log-1.sqlite"):
        assert in_parts(log) is None
    assert here == []


LAST = "WHERE seq = (SELECT max(seq) FROM events)"
SPOILS = {
    "a changed row": f"UPDATE events SET at_ms = at_ms + 1 {LAST}",
    "a row too many": "INSERT INTO events SELECT seq + 1, stream, version + 1, kind, schema, at_ms,"
    f" seen, body, chain FROM events {LAST}",
    "a row missing": f"DELETE FROM events {LAST}",
    "free pages garbled": "CREATE TABLE more AS SELECT * FROM events",
    "": "SELECT 1",
}


@pytest.mark.parametrize("what", SPOILS)
@pytest.mark.parametrize("place", [1, -1])
def test_the_command_tells_the_same_either_way(
    tmp_path: Path,
    day: Rig,
    here: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    place: int,
) -> None:
    log = log_of(tmp_path, day.log.entries)
    path = list_segments(log)[place].path
    whole = path.stat().st_size
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(SPOILS[what])
    if what == "free pages garbled":
        data = bytearray(path.read_bytes())
        data[whole : whole + 16_384] = b"\xa5" * 16_384
        path.write_bytes(data)
    told = CliRunner().invoke(log_group, ["verify", str(log), "--json"])
    assert here
    monkeypatch.setattr(parts, "WORTH_ROWS", 1 << 40)
    walked = CliRunner().invoke(log_group, ["verify", str(log), "--json"])
    assert (told.stdout, told.exit_code) == (walked.stdout, walked.exit_code)
    cut_off = what == "a row missing" and place == -1  # only a head kept elsewhere tells
    assert json.loads(told.stdout)["ok"] == (not what or cut_off)
