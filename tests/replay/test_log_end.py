"""A router that died and was not started again is told as dead; a copy of a log is not."""

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from eventlog.ownership import LOCK_NAME, writer_of
from eventlog.sqlite import SqliteStore
from tests.replay.rig import STREAM
from tests.rig import Flown, Rig
from trioroute.cli.root import main
from trioroute.policy.commands import Stop
from trioroute.replay.clock import local_iso

ROOT = Path(__file__).parents[2]
DIES = """
import os, sys
from pathlib import Path
from tests.replay.test_log_end import under_load
from tests.replay.rig import STREAM, store_of
from eventlog.sqlite import SqliteStore
from trioroute.events.views import VIEWS
store = SqliteStore.open(Path(sys.argv[1]), views=VIEWS)
store_of(under_load()[0].log.entries, store)
os._exit(9)
"""


def under_load() -> tuple[Rig, list[Flown]]:
    """Two requests end well, two still run where the log ends."""
    rig = Rig().live("a", "b")
    flown = []
    for _ in range(4):
        rig.pass_s(1)
        flown.append(rig.arrive())
    running = [one for one in flown if isinstance(one, Flown)]
    for one in running[:2]:
        rig.pass_s(1)
        rig.finish(one)
    rig.pass_s(2)
    rig.scrape(a=(1, 0), b=(1, 0))
    return rig, running[2:]


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose writer was killed under two requests."""
    log = tmp_path_factory.mktemp("dead") / "log"
    child = subprocess.run([sys.executable, "-c", DIES, str(log)], check=False, cwd=ROOT)
    assert child.returncode == 9
    return log


@pytest.fixture
def copied(dead: Path, tmp_path: Path) -> Path:
    """A copy of it with its lock file, as of a log whose router still runs."""
    return Path(shutil.copytree(dead, tmp_path / "copy"))


def asked(log: Path, *question: str) -> Result:
    return CliRunner().invoke(main, ["replay", str(log), *question])


def died_words(requests: str = "2 requests in flight then") -> str:
    at = local_iso(under_load()[0].at_ms)
    return f"no router writes this log: it died at or after {at}; {requests}"


def around() -> str:
    rig, _ = under_load()
    return f"{local_iso(rig.at_ms - 60_000)}/{local_iso(rig.at_ms + 60_000)}"


def names() -> list[str]:
    return [one.event.request_id for one in under_load()[1]]


def test_a_lock_tells_its_writer_from_one_that_died_and_from_a_copy(
    dead: Path, copied: Path, tmp_path: Path
) -> None:
    assert writer_of(dead) == "gone"
    assert writer_of(copied) == "unknown"
    with closing(SqliteStore.open(tmp_path / "live")):
        assert writer_of(tmp_path / "live") == "writing"
    assert writer_of(tmp_path / "live") == "closed"
    (copied / LOCK_NAME).unlink()
    assert writer_of(copied) == "unknown"


def test_who_looks_at_the_lock_keeps_no_router_from_starting(tmp_path: Path) -> None:
    SqliteStore.open(tmp_path).close()
    for _ in range(3):
        writer_of(tmp_path)
        SqliteStore.open(tmp_path).close()


def test_the_incident_names_the_death_and_counts_what_it_cut_off(dead: Path) -> None:
    shown = asked(dead, "--incident", around())
    assert shown.exit_code == 0
    assert died_words() in shown.stdout
    assert "2 failed" in shown.stdout.splitlines()[1]
    assert "nothing went wrong" not in shown.stdout
    assert all(f"{name} ran on" in shown.stdout for name in names())
    told = asked(dead, "--incident", around(), "--json").stdout
    assert '"kind": "died"' in told
    assert '"endings": {"ok": 2, "unknown": 2}' in told
    assert '"running": 0' in told
    assert '"name": "died"' in told
    assert '"state": "ROUTER DOWN"' in told


def test_a_span_behind_the_death_is_told_why_it_is_empty(dead: Path) -> None:
    at_ms = under_load()[0].at_ms
    later = f"{local_iso(at_ms + 1000)}/{local_iso(at_ms + 2000)}"
    assert died_words("")[:-2] in asked(dead, "--incident", later).stderr


def test_requests_that_it_cut_off_are_listed_as_failed(dead: Path) -> None:
    shown = asked(dead, "--requests", around(), "--where", "outcome=failed", "--json")
    assert shown.exit_code == 0
    assert all(name in shown.stdout for name in names())
    assert shown.stdout.count('"what": "Died"') == 2
    assert shown.stdout.count("a broken connection: the router died") == 2
    assert died_words() in shown.stderr


def test_the_story_of_one_of_them_ends_with_the_router(dead: Path) -> None:
    flown = under_load()[1][0]
    for question in (("--request", flown.event.request_id), ("--decision", f"r1/{flown.number}")):
        shown = asked(dead, *question)
        assert "unknown: the router died under it" in shown.stdout
        assert "in flight where the log ends" not in shown.stdout
        assert died_words() in shown.stderr


def test_the_last_decisions_and_the_state_now_say_it(dead: Path) -> None:
    last = asked(dead)
    assert last.stdout.count("router died") == 2
    assert "in flight" not in last.stdout
    assert died_words() in last.stderr
    now = asked(dead, "--at", "now")
    assert died_words() in now.stderr
    assert "no router ran now or lately" in now.stdout
    between = local_iso(under_load()[0].at_ms - 1500)
    assert "no router ran" not in asked(dead, "--at", between).stdout
    before = local_iso(under_load()[0].at_ms - 5000)
    assert "no router writes" not in asked(dead, "--at", before).stderr


def test_log_info_says_it(dead: Path) -> None:
    shown = CliRunner().invoke(main, ["log", "info", str(dead)])
    assert died_words() in " ".join(shown.stdout.split())


def test_of_a_copy_only_what_can_be_proved_is_said(copied: Path) -> None:
    told = asked(copied, "--incident", around(), "--json").stdout
    assert "this is a copy, or was written on another machine" in told
    assert '"kind": "died"' not in told
    assert '"running": 2' in told
    flown = under_load()[1][0]
    story = asked(copied, "--decision", f"r1/{flown.number}")
    assert "still in flight where the log ends" in story.stdout
    assert "2 requests in flight then: this is a copy" in story.stderr
    assert "no router writes this log" not in story.stderr
    first = asked(copied, "--decision", f"r1/{flown.number - 1}")
    assert "copy" not in first.stderr


@pytest.mark.parametrize("file", ["archive", "archive.sqlite"])
def test_an_archive_of_it_does_not_say_that_all_went_well(
    dead: Path, tmp_path: Path, file: str
) -> None:
    """It is closed in order, and its last row is no stop."""
    options = ["--one-file"] if file.endswith(".sqlite") else []
    made = CliRunner().invoke(main, ["log", "archive", str(dead), str(tmp_path / file), *options])
    assert made.exit_code == 0, made.output
    told = asked(tmp_path / file, "--incident", around()).stdout
    assert "2 requests in flight then: this is a copy" in " ".join(told.split())
    assert "nothing went wrong with the service in this span, as far as this log tells" in told
    flown = under_load()[1][0]
    story = asked(tmp_path / file, "--decision", f"r1/{flown.number}")
    assert "2 requests in flight then: this is a copy" in story.stderr
    if not options:
        info = CliRunner().invoke(main, ["log", "info", str(tmp_path / file)])
        assert "2 requests in flight then" in " ".join(info.output.split())


def test_a_log_whose_router_runs_or_stopped_says_nothing(tmp_path: Path) -> None:
    rig, _ = under_load()
    with closing(SqliteStore.open(tmp_path)) as store:
        store.append(STREAM, rig.log.entries, 0)
        assert "died" not in asked(tmp_path, "--incident", around()).output
        assert "died" not in asked(tmp_path).output
    code = DIES.replace("under_load()[0].log.entries", "stopped().log.entries").replace(
        "import under_load", "import stopped"
    )
    log = str(tmp_path / "stopped")
    subprocess.run([sys.executable, "-c", code, log], check=False, cwd=ROOT)
    assert writer_of(Path(log)) == "gone"
    assert "died" not in asked(Path(log)).output


def stopped() -> Rig:
    rig, running = under_load()
    for one in running:
        rig.finish(one)
    rig.do(Stop(at_ms=rig.at_ms, cause="signal", head=None))
    return rig
