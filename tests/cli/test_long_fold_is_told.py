"""Questions to a long log whose snapshots are all of another release: one line says so."""

from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from eventlog.sqlite import SqliteStore
from tests.replay.rig import STREAM, busy_day
from trioroute import snapshot
from trioroute.cli.log import parts
from trioroute.cli.root import main
from trioroute.snapshot import make_snapshots

OLD = "of another release"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = tmp_path_factory.mktemp("made") / "log"
    with closing(SqliteStore.open(log, sync="normal")) as store:
        store.append(STREAM, busy_day(900).log.entries, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "FOLD", OLD)
        patch.setattr(snapshot, "SPACING_ROWS", 500)
        make_snapshots(log)
    return log


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (["replay", "--at", "-1s"], "must be folded first"),
        (["replay", "--decision", "r1/2400"], "must be folded first"),
        (["replay", "--incident", "-10s/-1s"], "must be folded first"),
        (["replay", "--verify"], "one process reads it all"),
        (["log", "verify"], "one process reads it all"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("usable", [False, True])
def test_it_is_told_once_with_the_remedy(
    log: Path, monkeypatch: pytest.MonkeyPatch, question: list[str], told: str, usable: bool
) -> None:
    monkeypatch.setattr(snapshot, "LONG_ROWS", 1500)
    monkeypatch.setattr(parts, "PART_ROWS", 500)
    monkeypatch.setattr(parts, "WORTH_ROWS", 1000)
    if usable:
        for module in ("snapshot", "replay.stretches", "cli.log.parts"):
            monkeypatch.setattr(f"trioroute.{module}.FOLD", OLD)
    else:
        monkeypatch.setattr("trioroute.replay.verify.WORTH_ROWS", 1000)
        monkeypatch.setattr("trioroute.replay.verify.free_cores", lambda _: 2)
    command, *rest = question
    words = ["log", "verify", str(log)] if command == "log" else ["replay", str(log), *rest]
    done = CliRunner().invoke(main, words)
    assert "Traceback" not in done.stderr
    assert done.exit_code in (0, 1), done.stderr
    lines = done.stderr.splitlines()
    said = [line for line in lines if told in line]
    assert len(said) == (not usable), lines
    for line in said:
        assert line.startswith("Warning: ")
        assert "being of another release" in line
        assert f"`trioroute log snapshot {log}` makes new ones" in line
