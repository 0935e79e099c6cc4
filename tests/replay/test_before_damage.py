"""What lies before damage is told: of a log that was cut off, and of one with a bad page in it."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from eventlog.errors import LogDamaged
from eventlog.reading import SqliteReader
from eventlog.sqlite import SqliteStore
from tests.replay.rig import busy_day, written_log
from tests.replay.test_command import data, run
from tests.replay.test_damage import QUESTIONS, damaged, scribbled, torn
from trioroute.cli.log.verify import verify_command


@pytest.fixture(scope="module")
def day_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_log(tmp_path_factory.mktemp("day") / "log", busy_day(200))


def holds(log: Path) -> list[list[int]]:
    """The stretches of rows that verify proves."""
    told: list[list[int]] = json.loads(
        CliRunner().invoke(verify_command, [str(log), "--json"]).stdout
    )["holds"]
    return told


def decisions(log: Path, until: int) -> list[str]:
    with closing(SqliteReader.open(log)) as reader:
        rows = [row for row in reader.read(0, 1000) if row.seq <= until]
    return [f"r1/{row.version}" for row in rows if row.kind == "Dispatched"]


def test_a_torn_log_is_told_as_one_that_ends_before(day_log: Path, tmp_path: Path) -> None:
    log = damaged(day_log, tmp_path, torn)
    ((first, last),) = holds(log)
    assert first == 1
    assert last > 400
    for question in QUESTIONS:
        result = run(log, *question)
        if question[0] == "--verify":
            assert result.exit_code == 1
            assert f"good up to there: {last} events" in result.stdout
        else:
            assert result.exit_code == 0, (question, result.output)
            assert f"cannot be read behind row {last} (" in result.stderr
    for name in decisions(log, last - 150)[::20]:
        assert data(log, "--decision", name) == data(day_log, "--decision", name)
    with pytest.raises(LogDamaged):
        SqliteStore.open(log)


def test_what_lies_before_damage_is_told_and_what_may_lie_in_it_is_not_known(
    day_log: Path, tmp_path: Path
) -> None:
    log = damaged(day_log, tmp_path, scribbled)
    (_, before), (behind, _) = holds(log)
    whole = same = 0
    for name in decisions(day_log, before):
        told, expected = data(log, "--decision", name), data(day_log, "--decision", name)
        if told["followed"]["unread"] is None:
            assert told == expected
            whole += 1
            continue
        unknown = f"from row {before + 1} on it cannot be read (file: "
        assert told["followed"]["unread"].startswith(unknown)
        assert told["followed"]["ended"].startswith(f"not known: {unknown}")
        assert told["replica"] == expected["replica"]
        same += told["verified"]
    assert whole > 1
    assert same > 1
    later = decisions(day_log, behind + 100)[-1]
    assert run(log, "--decision", later).exit_code == 1, "its past cannot be told"
