"""``log export`` of rows that are not as they were written: JSON all the same, and named."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.replay.rig import busy_day, written_log
from trioroute.cli.log.root import log_group


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_log(tmp_path_factory.mktemp("day") / "log", busy_day(120))


def damaged(whole: Path, directory: Path, *commands: str) -> Path:
    log = Path(shutil.copytree(whole, directory / "log"))
    with closing(sqlite3.connect(log / "log-1.sqlite")) as base, base:
        for command in commands:
            base.execute(command)
    return log


def export(log: Path, *arguments: str) -> Result:
    return CliRunner().invoke(log_group, ["export", str(log), *arguments])


@pytest.mark.parametrize(
    ("change", "field", "told"),
    [
        ("body = 'nojson'", "body", None),
        ("body = '1}\n{\"seq\": 1'", "body", None),
        ("at_ms = at_ms - (1 << 47)", "at", None),
        ("at_ms = 9223372036854775807", "at", None),
        ("version = 9999", "version", 9999),
        ("kind = 'Re\"eased'", "kind", 'Re"eased'),
        ("schema = 99", "schema", 99),
    ],
)
def test_a_damaged_row_is_valid_json_and_named(
    whole: Path, tmp_path: Path, change: str, field: str, told: object
) -> None:
    log = damaged(whole, tmp_path, f"UPDATE events SET {change} WHERE seq = 100")
    result = export(log)
    assert result.exit_code == 1
    assert "1 row (seq 100) is not as it was written" in result.stderr
    lines, before = result.stdout.splitlines(), export(whole).stdout.splitlines()
    assert json.loads(lines[99])[field] == told
    assert lines[:99] + lines[100:] == before[:99] + before[100:]


def test_a_row_that_cannot_be_read_is_of_no_replica(whole: Path, tmp_path: Path) -> None:
    log = damaged(whole, tmp_path, "UPDATE events SET body = 'nojson' WHERE kind = 'Released'")
    result = export(log, "--replica", "a")
    assert result.exit_code == 1
    assert "and " in result.stderr
    assert " more) are not as they were written" in result.stderr
    kinds = {json.loads(line)["kind"] for line in result.stdout.splitlines()}
    assert "Dispatched" in kinds
    assert "Released" not in kinds


def test_damage_before_what_is_asked_for_is_not_told(whole: Path, tmp_path: Path) -> None:
    times = [json.loads(line)["at"] for line in export(whole).stdout.splitlines()]
    log = damaged(whole, tmp_path, "UPDATE events SET body = '{}' WHERE seq = 10")
    since = export(log, "--since", times[60])
    assert since.exit_code == 0
    assert since.stdout == export(whole, "--since", times[60]).stdout


def test_a_file_of_damaged_rows_is_written_whole(whole: Path, tmp_path: Path) -> None:
    log = damaged(whole, tmp_path, "UPDATE events SET body = 'x' WHERE seq IN (7, 9)")
    out = tmp_path / "all.jsonl"
    result = export(log, "--output", str(out))
    assert result.exit_code == 1
    assert "2 rows (seq 7, 9) are not as they were written" in result.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["seq"] for row in rows if row["body"] is None] == [7, 9]


def test_a_log_whose_beginning_was_retired_is_no_damage(whole: Path, tmp_path: Path) -> None:
    log = damaged(whole, tmp_path, "DELETE FROM events WHERE seq <= 50")
    (log / "log-1.sqlite").rename(log / "log-51.sqlite")
    result = export(log)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == export(whole).stdout.splitlines()[50:]
