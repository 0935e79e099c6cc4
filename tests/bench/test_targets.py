"""Every proxy is told its port and both replicas; what its own parser can check, it checks."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.install import which
from tests.bench.targets import TARGETS, Launch, Place
from tests.ports import free_port
from trioroute.settings import load

UPSTREAMS = (18111, 18112)


def launched(name: str, directory: Path, program: Path = Path("/program")) -> Launch:
    launch = TARGETS[name].launch
    assert launch is not None
    port, admin_port = free_port(), free_port()
    made = launch(program, Place(port, admin_port, directory, UPSTREAMS))
    for file, text in made.files.items():
        (directory / file).write_text(text)
    told = " ".join([*map(str, made.command), *made.files.values(), *made.env.values()])
    assert str(port) in told
    return made


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.launch])
def test_a_target_is_told_both_replicas_and_reads_the_file_it_was_given(
    name: str, tmp_path: Path
) -> None:
    made = launched(name, tmp_path)
    told = " ".join([*map(str, made.command), *made.files.values(), *made.env.values()])
    assert all(str(port) in told for port in UPSTREAMS)
    assert all(str(tmp_path / file) in map(str, made.command) for file in made.files)


def test_trioroute_keeps_the_full_log_and_its_defaults(tmp_path: Path) -> None:
    launched("trioroute", tmp_path)
    loaded = load(tmp_path / "trioroute.toml", environ={})
    log = loaded.in_force.log
    assert log.sync == "full"
    assert log.gate == "first_byte"
    assert Path(log.path) == tmp_path / "log"
    assert [replica.url for replica in loaded.replicas] == [
        f"http://127.0.0.1:{port}" for port in UPSTREAMS
    ]


@pytest.mark.parametrize("name, check", [("nginx", ["-t"]), ("haproxy", ["-c"])])
def test_the_program_itself_takes_its_file(name: str, check: list[str], tmp_path: Path) -> None:
    program = which(name)
    if program is None:
        pytest.skip(f"{name} is not installed here")
    made = launched(name, tmp_path, program)
    done = subprocess.run(
        [*map(str, made.command), *check], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_target_but_direct_has_a_command() -> None:
    assert [name for name, target in TARGETS.items() if target.launch is None] == ["direct"]
    assert TARGETS["trioroute"].find() == Path(sys.executable)
