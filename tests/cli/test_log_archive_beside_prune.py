"""``trioroute log archive`` while ``trioroute log prune`` retires what it copies."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from eventlog import sqlite_copy
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteStore
from tests.replay.rig import STREAM, busy_day
from trioroute.cli.root import main


@pytest.fixture
def log(tmp_path: Path) -> Path:
    entries = busy_day(300).log.entries
    limits = SegmentLimits(size_bytes=100_000)
    with closing(SqliteStore.open(tmp_path / "log", sync="normal", limits=limits)) as store:
        for n in range(0, len(entries), 50):
            store.append(STREAM, entries[n : n + 50], n)
    return tmp_path / "log"


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("as_data", [False, True])
def test_the_copy_has_all_and_says_what_the_log_has_no_more(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_data: bool
) -> None:
    run("log", "snapshot", log)
    there = [file.path.name for file in list_segments(log)]
    real = sqlite_copy._copy_file

    def beside_prune(*args: Any) -> None:
        if len(list_segments(log)) > 1:
            run("log", "prune", log, "--keep", "1KiB")
        real(*args)

    monkeypatch.setattr(sqlite_copy, "_copy_file", beside_prune)
    told = run("log", "archive", log, tmp_path / "copy", *(["--json"] if as_data else []))
    assert [file.path.name for file in list_segments(log)] == there[-1:]
    assert [file.path.name for file in list_segments(tmp_path / "copy")] == there
    if as_data:
        assert json.loads(told)["retired"] == there[:-1]
    else:
        gone = ", ".join(there[:-1])
        assert f"\nretired meanwhile, and in the copy all the same: {gone}\n" in told
    assert "verified" in run("log", "verify", tmp_path / "copy")
    run("replay", tmp_path / "copy", "--verify")
