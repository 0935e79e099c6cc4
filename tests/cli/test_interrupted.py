"""Ctrl-C ends a command without a trace, and a shell sees that it was Ctrl-C."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from trioroute.cli.lazy import LazyGroup
from trioroute.cli.log.info import info_command
from trioroute.cli.root import main
from trioroute.cli.start import INTERRUPTED

PRESSED_AT_AN_IMPORT = textwrap.dedent("""\
    import os, signal, sys

    class Pressed:
        def find_spec(self, name, path=None, target=None):
            if name == awaited:
                os.kill(os.getpid(), signal.SIGINT)

    sys.meta_path.insert(0, Pressed())
    awaited = sys.argv.pop(1)
    from trioroute.cli import main
    main()
    """)

IMPORTS = {
    "click": "--help",
    "trioroute.cli.root": "--version",
    "trioroute.cli.log.root": "log info LOG",
    "orjson": "log export LOG",  # its native part died of it: a segmentation fault
    "attrs": "log verify LOG",
    "_sqlite3": "log info LOG",
    "rich.console": "replay LOG",
    "trioroute.cli.replay_answers": "replay LOG --last 10",
    "trioroute.replay.listing": "replay LOG --requests -1h",
    "trio": "serve",
    "trioroute.assembly": "serve",
    "trioroute.simulate": "simulate",
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    log = str(tmp_path_factory.mktemp("interrupted") / "log")
    simulated = ["simulate", "--workload", "chat:minutes=3", "--policy", "soft-sticky"]
    made = CliRunner().invoke(main, [*simulated, "--engine", "tiny", "--log", log])
    assert made.exit_code == 0, made.output
    return log


@pytest.mark.parametrize("module", IMPORTS)
def test_ctrl_c_while_a_command_is_imported_ends_it_without_a_trace(
    module: str, log: str, tmp_path: Path
) -> None:
    words = IMPORTS[module].replace("LOG", log).split(" ")
    ended = subprocess.run(
        [sys.executable, "-c", PRESSED_AT_AN_IMPORT, module, *words],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=tmp_path,
    )
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")


def test_ctrl_c_ends_a_command_at_work_by_the_signal_so_that_a_loop_around_it_ends(
    log: str,
) -> None:
    command = [sys.executable, "-m", "trioroute", "log", "export", log]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as popen:
        assert popen.stdout is not None
        assert popen.stderr is not None
        popen.stdout.read(1)  # it is at work, and the pipe is too small for the rest
        popen.send_signal(signal.SIGINT)
        assert popen.wait(100) == -signal.SIGINT
        assert popen.stderr.read() == b""


@pytest.mark.parametrize("grouped", [False, True])
def test_an_interrupt_is_no_failed_check(grouped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pressed = KeyboardInterrupt()

    def at_work(**_: object) -> None:
        raise BaseExceptionGroup("a nursery's", [pressed]) if grouped else pressed

    monkeypatch.setattr(info_command, "callback", at_work)
    ended = CliRunner().invoke(main, ["log", "info", "anywhere"])
    assert (ended.exit_code, ended.output) == (INTERRUPTED, "")


def test_a_signal_that_is_ignored_stays_so(log: str) -> None:
    """As of a command that a script started in the background."""
    script = f"trap '' INT; {sys.executable} -c '{PRESSED_AT_AN_IMPORT}' orjson log export {log}"
    ended = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=100, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_every_command_but_a_group_lets_an_interrupt_be_heard_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a command has begun is undone on the way out."""
    heard: list[str] = []
    monkeypatch.setattr("trioroute.cli.lazy.end_in_order", lambda: heard.append("again"))
    ctx = click.Context(main)
    for name in main.list_commands(ctx):
        group = main.get_command(ctx, name)
        assert heard == ([] if isinstance(group, LazyGroup) else ["again"]), name
        heard.clear()
