"""A command whose reader has enough, as `head` has, ends as other tools in a pipe do."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from trioroute.cli.failures import READER_GONE
from trioroute.cli.root import main

COMMANDS = (
    "--help",
    "--version",
    "replay --help",
    "alerts",
    "alerts --grafana",
    "check FILE",
    "check FILE --json",
    "demo --log DIR/demo --port 0 --admin-port 0",
    "simulate --workload chat:minutes=1 --engine tiny",
    "simulate --workload chat:minutes=1 --engine tiny --json",
    "log info LOG",
    "log info LOG --json",
    "log verify LOG",
    "log verify LOG --json",
    "log export LOG",
    "log export LOG --output /dev/stdout",
    "log prune LOG --dry-run --keep 1GiB",
    "log archive LOG DIR/copy",
    "log snapshot LOG",
    "replay LOG",
    "replay LOG --json",
    "replay LOG --decision r1/42",
    "replay LOG --requests -1h",
    "replay LOG --replica gpu1",
    "replay LOG --at -5s",
    "replay LOG --verify",
    "replay LOG --what-if policy.slack.session=4",
    "replay LOG --compare LOG",
    "replay LOG --incident -1h",
    "replay LOG --incident -1h --json",
    "replay LOG --incident -1h --markdown",
    "replay LOG --incident -1h --html /dev/stdout",
    "replay LOG --watch",
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("closed")
    log, file = directory / "log", directory / "trioroute.toml"
    file.write_text("[[replica]]\nurl = 'http://127.0.0.1:1'\n")
    simulated = ["simulate", "--workload", "chat:minutes=3", "--policy", "soft-sticky"]
    made = CliRunner().invoke(main, [*simulated, "--engine", "tiny", "--log", str(log)])
    assert made.exit_code == 0, made.output
    return {"LOG": str(log), "FILE": str(file), "DIR": str(directory)}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_whose_reader_has_gone_ends_quietly_with_one_code(
    command: str, places: dict[str, str]
) -> None:
    for name, place in places.items():
        command = command.replace(name, place)
    read, write = os.pipe()
    os.close(read)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "trioroute", *command.split(" ")],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=100,
            check=False,
        )
    finally:
        os.close(write)
    told = [line for line in ended.stderr.splitlines() if not line.startswith("wrote ")]
    assert (ended.returncode, told) == (READER_GONE, [])


def test_an_export_into_head_ends_as_a_tool_that_died_of_the_pipe(places: dict[str, str]) -> None:
    export = f"{sys.executable} -m trioroute log export {places['LOG']}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {export} | head -1"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (READER_GONE, "")
    assert done.stdout.count("\n") == 1
