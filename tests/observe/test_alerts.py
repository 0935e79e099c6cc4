"""The alert rules: valid to promtool, right on made-up series, and each of them documented."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.house import pages
from trioroute.cli.root import main
from trioroute.events.sections import Eject
from trioroute.observe.alerts import alerts, flapping, rules_file
from trioroute.observe.exporter import SERIES

HERE = Path(__file__).parent
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None and not os.environ.get("CI"),
    reason="promtool is not installed (Debian and Ubuntu: apt install prometheus)",
)


def promtool(*arguments: str, where: Path) -> str:
    assert PROMTOOL is not None, "promtool is missing: apt install prometheus"
    done = subprocess.run(
        [PROMTOOL, *arguments], cwd=where, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_each_alert_fires_in_its_trouble_and_not_without_it(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(CliRunner().invoke(main, ["alerts"]).stdout)
    (tmp_path / "tests.yml").write_text((HERE / "alerts.promtool.yml").read_text())
    assert "12 rules found" in promtool("check", "rules", "rules.yml", where=tmp_path)
    promtool("test", "rules", "tests.yml", where=tmp_path)


def test_every_alert_is_tested_for_firing() -> None:
    tested = (HERE / "alerts.promtool.yml").read_text()
    for alert in alerts(Eject()):
        assert f"alertname: {alert.name}\n        exp_alerts:\n" in tested, alert.name


def unknown_series(*expressions: str) -> set[str]:
    known = {series.name for series in SERIES}
    asked = set(re.findall(r"trioroute_\w+", " ".join(expressions)))
    return {re.sub("_total$|_bucket$", "", name) for name in asked} - known


def board_expressions() -> list[str]:
    board = json.loads(CliRunner().invoke(main, ["alerts", "--grafana"]).stdout)
    shown = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return shown + [note["expr"] for note in board["annotations"]["list"]]


def test_rules_and_board_ask_only_for_series_that_exist() -> None:
    assert unknown_series(*(alert.expr for alert in alerts(Eject()))) == set()
    assert unknown_series(*board_expressions()) == set()


@needs_promtool
def test_every_query_of_the_board_is_valid(tmp_path: Path) -> None:
    queries = [query.replace("$__rate_interval", "1m") for query in board_expressions()]
    rules = [{"record": f"board:{n}", "expr": query} for n, query in enumerate(queries)]
    document = {"groups": [{"name": "board", "rules": rules}]}
    (tmp_path / "board.yml").write_text(json.dumps(document))
    assert f"{len(queries)} rules found" in promtool("check", "rules", "board.yml", where=tmp_path)


@pytest.mark.parametrize(
    ("cooldown_ms", "ceiling_ms", "above"),
    [(30_000, 300_000, "240"), (1000, 2000, "1"), (500, 2000, "1"), (5000, 5000, "0")],
)
def test_the_ceiling_is_above_the_last_shorter_cooldown(
    cooldown_ms: int, ceiling_ms: int, above: str
) -> None:
    eject = Eject(cooldown_ms=cooldown_ms, cooldown_max_ms=ceiling_ms)
    assert flapping(eject).expr.endswith(f"[10m]) > {above}")


def test_the_command_takes_the_cooldowns_of_a_settings_file(tmp_path: Path) -> None:
    config = tmp_path / "trioroute.toml"
    config.write_text('[eject]\ncooldown = "10s"\ncooldown_max = "40s"\n')
    done = CliRunner().invoke(main, ["alerts", "--config", str(config)])
    assert done.exit_code == 0
    eject = Eject(cooldown_ms=10_000, cooldown_max_ms=40_000)
    assert done.stdout == rules_file(eject)
    config.write_text("[eject]\ncooldown = -1\n")
    assert CliRunner().invoke(main, ["alerts", "--config", str(config)]).exit_code == 2


def test_the_table_of_alerts_tells_each_with_its_severity() -> None:
    row = re.compile(r"^\| `(Trioroute\w+)` \| (\w+) \|", re.MULTILINE)
    told = dict(row.findall(pages.page(pages.METRICS)))
    assert told == {alert.name: alert.severity for alert in alerts(Eject())}
