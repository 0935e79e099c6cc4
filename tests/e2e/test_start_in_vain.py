"""A start that cannot succeed ends with a code of its own, and no supervisor tries it for ever."""

import contextlib
import gzip
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlog.sqlite import SqliteStore
from tests.house.test_deploy import UNIT
from tests.ports import free_port
from tests.replay.test_golden_logs import GOLDEN

NEEDS_HANDS = 2


def serve(log: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trioroute", "serve", "--replica=http://127.0.0.1:9"]
    command += [f"--listen=127.0.0.1:{free_port()}", f"--admin=127.0.0.1:{free_port()}"]
    command += [f"--log={log}", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 0.1.0 without a snapshot, so that a start reads every row."""
    directory = tmp_path / "log"
    directory.mkdir()
    packed = (GOLDEN / "0.1.0.sqlite.gz").read_bytes()
    (directory / "log-1.sqlite").write_bytes(gzip.decompress(packed))
    return directory


def _statement(text: str) -> Callable[[Path], None]:
    def change(log: Path) -> None:
        with contextlib.closing(sqlite3.connect(log / "log-1.sqlite")) as base, base:
            base.execute(text)

    return change


def _no_database(log: Path) -> None:
    with (log / "log-1.sqlite").open("r+b") as file:
        file.write(b"x" * 5000)


def _no_key(log: Path) -> None:
    (log / "key").write_text("none\n")


IN_VAIN = {
    "a row is gone": (_statement("DELETE FROM events WHERE seq = 7"), "damaged (gap"),
    "the file is no database": (_no_database, "damaged (file"),
    "a row of a newer release": (
        _statement("UPDATE events SET schema = 99 WHERE seq = 7"),
        "schema 99",
    ),
    "a newer format": (_statement("PRAGMA user_version = 99"), "newer"),
    "a key that is none": (_no_key, "holds no key"),
}


@pytest.mark.parametrize("damage", IN_VAIN)
def test_a_log_that_needs_hands_is_not_started_again(log: Path, damage: str) -> None:
    change, told = IN_VAIN[damage]
    change(log)
    done = serve(log)
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == NEEDS_HANDS


def test_wrong_settings_are_not_tried_again(tmp_path: Path) -> None:
    (tmp_path / "trioroute.toml").write_text("[server]\nlisen = 1\n")
    done = serve(tmp_path / "log", f"--config={tmp_path / 'trioroute.toml'}")
    assert (done.returncode, "lisen" in done.stderr) == (NEEDS_HANDS, True)


def test_a_log_of_another_router_may_be_free_in_a_moment(log: Path) -> None:
    with contextlib.closing(SqliteStore.open(log)):
        done = serve(log)
    assert (done.returncode, "is being written by" in done.stderr) == (1, True)


def test_the_unit_heeds_that_code_and_bounds_every_other() -> None:
    assert f"RestartPreventExitStatus={NEEDS_HANDS}\n" in UNIT
    assert "ExecStartPre=" not in UNIT, "systemd heeds the code of ExecStart only"
    head, _, service = UNIT.partition("[Service]")
    interval_min, burst = (
        int(re.findall(rf"^{name}=(\d+)", head, re.MULTILINE)[0])
        for name in ("StartLimitIntervalSec", "StartLimitBurst")
    )
    pause_s = int(re.findall(r"^RestartSec=(\d+)s", service, re.MULTILINE)[0])
    slow_start_s = 20
    assert burst * (pause_s + slow_start_s) < interval_min * 60, "else it is never met"
