"""One writer per log directory."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog import LogOwned
from eventlog.ownership import LOCK_NAME
from eventlog.sqlite import SqliteStore


def test_a_second_opener_is_told_who_owns_the_log_and_what_to_do(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log")
    with pytest.raises(LogOwned, match="stop it first") as owned:
        SqliteStore.open(tmp_path / "log")
    assert (owned.value.path, owned.value.pid) == (tmp_path / "log", os.getpid())
    assert f"process {os.getpid()}" in str(owned.value)
    assert str(tmp_path / "log") in str(owned.value)
    store.close()
    SqliteStore.open(tmp_path / "log").close()


def test_a_process_that_died_leaves_no_lock_behind(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from eventlog.sqlite import SqliteStore\n"
        "store = SqliteStore.open(Path(sys.argv[1])); os._exit(9)"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "log")]
    child = subprocess.run(arguments, check=False, cwd=Path(__file__).parents[2])
    assert child.returncode == 9
    pid, mark = (tmp_path / "log" / LOCK_NAME).read_text().split(" ", 1)
    assert pid.isdigit()
    assert mark.strip()
    SqliteStore.open(tmp_path / "log").close()


def test_a_failed_opening_gives_the_directory_up(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="view 'bad'"):
        SqliteStore.open(tmp_path / "log", views={"bad": "SELECT nothing FROM nowhere"})
    SqliteStore.open(tmp_path / "log").close()


def test_a_log_made_here_is_for_its_owner_only(tmp_path: Path) -> None:
    SqliteStore.open(tmp_path / "deep" / "log").close()
    assert stat.S_IMODE((tmp_path / "deep" / "log").stat().st_mode) == 0o700
