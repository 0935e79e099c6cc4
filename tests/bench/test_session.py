"""The whole bench once, with almost no time: it runs, and its figures are of the right kind."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.bench import rows, soak
from tests.bench.command import main
from tests.bench.targets import TARGETS

TINY = rows.Pace(500, 300, 300, 200, 300, 5.0)
SHORT_ROWS = "rps-2k-32,cpu-2k-32,leave"


@pytest.mark.timeout(180)  # three proxies start, on a busy machine
@pytest.mark.usefixtures("programs")
def test_proxies_that_need_no_installation_fill_their_cells(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(rows, "QUICK", TINY)
    path = tmp_path / "bench.json"
    options = [
        "--quick",
        "--only",
        "direct,hypercorn+httpx,trioroute",
        "--rows",
        SHORT_ROWS,
        "--json",
        str(path),
    ]
    done = CliRunner().invoke(main, options, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    told = json.loads(path.read_text())
    assert not told["absent"], told
    assert list(told["rows"]) == ["rps-2k-32", "cpu-2k-32", "leave"]
    assert told["rows"]["rps-2k-32"]["direct"]["median"] > 100
    assert told["rows"]["rps-2k-32"]["trioroute"]["median"] > 1
    assert told["rows"]["rps-2k-32"]["hypercorn+httpx"]["median"] > 1
    assert 10 < told["rows"]["cpu-2k-32"]["trioroute"]["median"] < 100_000
    assert "direct" not in told["rows"]["cpu-2k-32"]
    assert "CPU µs per request, 2 KB JSON, 32 connections" in done.output


def test_names_that_are_unknown_are_told_with_those_there_are() -> None:
    done = CliRunner().invoke(main, ["--only", "nginx,apache"])
    assert done.exit_code == 2
    assert "no apache; there are direct, nginx" in done.output
    done = CliRunner().invoke(main, ["--rows", "speed"])
    assert "no speed; there are rps-2k-32" in done.output


def test_every_row_and_option_is_on_the_page() -> None:
    page = (Path(__file__).parent / "BENCH.md").read_text()
    assert all(f"`{name}`" in page for name in rows.ROWS)
    assert all(f"`{option}" in page for param in main.params for option in param.opts)
    assert all(name in page for name in TARGETS)


@pytest.mark.timeout(180)  # a router and three replicas, on a busy machine
@pytest.mark.usefixtures("programs")
def test_a_short_soak_tells_its_samples_and_verifies_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(soak, "CEILING_MS", 500)
    monkeypatch.setattr(soak, "CONNS", 64)
    done = CliRunner().invoke(main, ["--soak", "0.1"], catch_exceptions=False)
    lines = done.output.splitlines()
    assert len([line for line in lines if " in flight " in line and " min " in line]) >= 3
    assert any(line.startswith("verified: ") for line in lines), done.output
    assert done.exit_code == any(line.startswith("grew or failed") for line in lines)
    assert "when nobody asked" not in done.output
