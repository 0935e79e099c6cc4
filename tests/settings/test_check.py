"""``trioroute check``: what it prints and how it exits."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trioroute.cli.check import check_command


def check(path: Path, *options: str, **environ: str) -> Result:
    return CliRunner().invoke(check_command, [str(path), *options], env=dict(environ))


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "trioroute.toml"
    path.write_text(
        '[[replica]]\nurl = "http://a"\n[[replica]]\nurl = "http://b"\n', encoding="utf-8"
    )
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "trioroute.toml"
    path.write_text("[scrape]\nintervall = 3\ntimeout = true\n", encoding="utf-8")
    return path


def test_a_good_file_is_summed_up_in_one_line(good: Path) -> None:
    result = check(good)
    assert result.exit_code == 0
    assert result.stdout == f"{good}: ok, 2 replicas, policy soft-sticky\n"
    assert result.stderr == ""


def test_one_replica_is_not_counted_as_several(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text('[[replica]]\nurl = "http://a"\n', encoding="utf-8")
    assert check(path).stdout == f"{path}: ok, 1 replica, policy soft-sticky\n"


def test_every_problem_is_a_line_on_stderr_and_the_exit_code_is_2(bad: Path) -> None:
    result = check(bad)
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert (
        lines[0] == f"{bad}: scrape.intervall: is not a known key; the nearest is scrape.interval"
    )
    assert lines[1].startswith(f"{bad}: scrape.timeout = true: is not a duration; write seconds")
    assert len(lines) == 2


def test_problems_as_json_hold_place_key_value_message_and_remedy(bad: Path) -> None:
    result = check(bad, "--json")
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert (found["file"], found["ok"]) == (str(bad), False)
    assert [one["key"] for one in found["problems"]] == ["scrape.intervall", "scrape.timeout"]
    assert set(found["problems"][1]) == {"place", "key", "value", "message", "remedy"}
    assert found["problems"][1]["value"] == "true"


def test_a_good_file_as_json_has_no_problems(good: Path) -> None:
    result = check(good, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"file": str(good), "ok": True, "problems": []}


def test_a_missing_file_is_a_problem_and_no_traceback(tmp_path: Path) -> None:
    result = check(tmp_path / "nowhere.toml")
    assert result.exit_code == 2
    assert "nowhere.toml: cannot be read: No such file or directory" in result.stderr


def test_the_environment_is_checked_with_the_file(good: Path) -> None:
    result = check(good, TRIOROUTE_PINS_MAX="none")
    assert result.exit_code == 2
    assert result.stderr.startswith("TRIOROUTE_PINS_MAX: pins.max")


def test_the_help_has_an_example(good: Path) -> None:
    result = check(good, "--help")
    assert result.exit_code == 0
    assert "trioroute check trioroute.toml" in result.stdout
