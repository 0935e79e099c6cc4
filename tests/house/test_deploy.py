"""The files under deploy/ hold what they say: settings load, names exist, copies are copies."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.house.source import ROOT
from trioroute.cli.root import COMMANDS, main
from trioroute.settings import KNOWN_KEYS, load
from trioroute.settings.sources import ADMIN_TOKEN_VARIABLE

DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "systemd" / "trioroute.service").read_text()
TEXTS = sorted(path for path in DEPLOY.rglob("*") if path.is_file())


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def compose() -> dict[str, Any]:
    (document,) = documents("compose/compose.yml")
    return document


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def test_the_rules_beside_compose_are_those_of_the_command() -> None:
    rules = CliRunner().invoke(main, ["alerts"]).stdout
    copy = DEPLOY / "compose" / "trioroute.rules.yml"
    assert copy.read_text() == rules, f"run: trioroute alerts > {copy.relative_to(ROOT)}"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_variable_is_one_that_is_read(path: Path) -> None:
    known = {"TRIOROUTE_" + key.upper().replace(".", "_") for key in KNOWN_KEYS}
    named = set(re.findall(r"TRIOROUTE_[A-Z_]+", path.read_text()))
    # The token's variable is the one where trioroute replica and top look for it.
    assert named <= known | {"TRIOROUTE_REPLICAS", ADMIN_TOKEN_VARIABLE}


def test_the_settings_in_the_manifest_are_valid(tmp_path: Path) -> None:
    (config,) = (d for d in documents("kubernetes/trioroute.yml") if d["kind"] == "ConfigMap")
    (tmp_path / "trioroute.toml").write_text(config["data"]["trioroute.toml"])
    settings = load(
        tmp_path / "trioroute.toml", environ={ADMIN_TOKEN_VARIABLE: "some-long-secret-token"}
    )
    assert len(settings.replicas) == 2


def test_commands_inside_the_pieces_find_the_token() -> None:
    environ = compose()["services"]["router"]["environment"]
    assert environ["TRIOROUTE_SERVER_ADMIN_TOKEN_ENV"] == ADMIN_TOKEN_VARIABLE
    assert ADMIN_TOKEN_VARIABLE in environ
    (router,) = (d for d in documents("kubernetes/trioroute.yml") if d["kind"] == "Deployment")
    (container,) = router["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in container["env"]] == [ADMIN_TOKEN_VARIABLE]


def test_the_settings_of_compose_are_valid() -> None:
    environ = dict(compose()["services"]["router"]["environment"])
    assert len(load(None, environ=environ).replicas) == 4


def test_everywhere_streams_have_time_to_end() -> None:
    grace_s = load(None, environ={}).in_force.server.graceful_timeout_ms // 1000
    (pod,) = (d for d in documents("kubernetes/trioroute.yml") if d["kind"] == "Deployment")
    assert pod["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > grace_s
    assert pod["spec"]["strategy"] == {"type": "Recreate"}, "two routers must not open one log"
    assert seconds(compose()["services"]["router"]["stop_grace_period"]) > grace_s
    (unit_grace,) = re.findall(r"TimeoutStopSec=(\d+)s", UNIT)
    assert int(unit_grace) > grace_s


def test_only_commands_that_exist_are_run() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    asked = re.findall(r"bin/trioroute (\w+)|\"trioroute\", \"(\w+)\"", UNIT + dockerfile)
    assert {one or two for one, two in asked} == {"serve"} <= set(COMMANDS)
    assert compose()["services"]["gpu1"]["entrypoint"][1] in COMMANDS


def test_nothing_runs_as_root() -> None:
    assert re.search(r"^USER 10001", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert "User=trioroute" in UNIT


def test_no_supervisor_starts_it_for_ever_without_a_word() -> None:
    kind, _, times = compose()["services"]["router"]["restart"].partition(":")
    assert (kind, int(times) > 0) == ("on-failure", True)
    (pod,) = (d for d in documents("kubernetes/trioroute.yml") if d["kind"] == "Deployment")
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
