"""A mistyped name on the command line is answered with the one that was meant."""

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.replay.test_golden_logs import GOLDEN
from trioroute.cli.root import main

MISTYPED = {
    "--what-if policy.name=leastwork": "did you mean 'least-work'?",
    "--step stat": "did you mean 'start'?",
    "--step r2/3": "its routers are r1; did you mean 'r1'?",
    "--decision r2/322": "its routers are r1; did you mean 'r1'?",
    "simulate --policy sof-sticky": "did you mean 'soft-sticky'?",
    "simulate --set policy.load=leteral": "did you mean 'literal'?",
    "simulate --workload agent:16": "did you mean 'agents'?",
    "simulate --workload chat:rat=2": "did you mean 'rate'?",
    "simulate --engine a10": "did you mean 'a100'?",
    "simulate --fault replca=1,down=1..2": "did you mean 'replica'?",
    "simulate --fault replica=1,dwon=1..2": "did you mean 'down'?",
    "replica drian gpu1": "did you mean 'drain'?",
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    packed = (GOLDEN / "0.1.0.sqlite.gz").read_bytes()
    (directory / "log-1.sqlite").write_bytes(gzip.decompress(packed))
    return directory


@pytest.mark.parametrize("command", MISTYPED)
def test_a_mistyped_name_is_answered_with_the_nearest(log: Path, command: str) -> None:
    words = command.split()
    arguments = ["replay", str(log), *words] if words[0].startswith("--") else words
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code in (1, 2), done.output
    assert MISTYPED[command] in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("command", ["simulate --policy xyzzy", "simulate --engine xyzzy"])
def test_a_name_like_none_gets_the_list_only(command: str) -> None:
    done = CliRunner().invoke(main, command.split())
    assert done.exit_code == 2
    assert "did you mean" not in done.output


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[timeouts]\nretries = 3\n", "retries is a section of its own: its keys are retries.max"),
        ('[policy]\nname = "sof-sticky"\n', "did you mean 'soft-sticky'?"),
    ],
)
def test_settings_that_were_meant_otherwise(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "trioroute.toml").write_text(text)
    done = CliRunner().invoke(main, ["check", str(tmp_path / "trioroute.toml")])
    assert done.exit_code == 2
    assert told in done.output
