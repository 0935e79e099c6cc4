"""A long fold at a start is told to people and to the service manager, while it lasts."""

import logging
import shutil
import socket
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.snapshots import Snapshots
from eventlog.sqlite import SqliteReader, SqliteStore
from tests.replay.rig import STREAM, busy_day
from trioroute import slow_start, snapshot
from trioroute.recovery import recover
from trioroute.slow_start import PATIENCE_S, TELL_EVERY_S, SlowStart
from trioroute.snapshot import make_snapshots


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made") / "log"
    entries = busy_day(900).log.entries
    with closing(SqliteStore.open(directory, sync="normal")) as store:
        store.append(STREAM, entries, 0)
    return directory


@pytest.fixture
def log(made_once: Path, tmp_path: Path) -> Path:
    shutil.copytree(made_once, tmp_path / "log")
    return tmp_path / "log"


class Clock:
    """Each look is 4 s later."""

    def __init__(self) -> None:
        self.at_s = 100.0

    def __call__(self) -> float:
        self.at_s += 4
        return self.at_s


def start(log: Path) -> None:
    """In pages of 500 rows."""
    with pytest.MonkeyPatch.context() as patch, SqliteReader.open(log) as reader:
        patch.setattr("trioroute.recovery.PAGE", 500)
        recover(reader, STREAM, Snapshots(log), None, SlowStart(log, Clock()))


def test_a_long_fold_is_told_with_its_progress_and_asks_for_patience(
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(slow_start, "LONG_ROWS", 1000)
    sent: list[str] = []
    monkeypatch.setattr(slow_start, "tell_supervisor", lambda *words: sent.append(words[0]))
    start(log)
    begun, *going = [record.message for record in caplog.records]
    with SqliteReader.open(log) as reader:
        rows = reader.head().seq
    assert f"the router serves once it has folded {rows} events" in begun
    assert f"`trioroute log snapshot {log}` of this release, run before a restart" in begun
    assert going[0].startswith(f"folding the log: 1000 of {rows} events ({100_000 // rows} %), ")
    assert sent == [f"EXTEND_TIMEOUT_USEC={PATIENCE_S}000000"] * (1 + len(going))
    assert PATIENCE_S > 2 * TELL_EVERY_S


def test_a_short_one_is_not_told(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with SqliteReader.open(log) as reader:
        recover(reader, STREAM, Snapshots(log), None, SlowStart(log))
    assert not caplog.records


def test_systemd_waits_for_a_start_after_an_upgrade(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only snapshots of another fold are there."""
    make_snapshots(log)
    monkeypatch.setattr("trioroute.recovery.FOLD", "of another release")
    monkeypatch.setattr(slow_start, "LONG_ROWS", 1000)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.bind(str(tmp_path / "notify"))
        inbox.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        start(log)
        words = inbox.recv(1000).decode().splitlines()
    assert words == [f"EXTEND_TIMEOUT_USEC={PATIENCE_S}000000", "STATUS=folding the log, 0 %"]


@pytest.mark.parametrize("made", ["foreign", "none", "ours"])
def test_what_makes_a_fold_long_is_said_with_the_remedy(
    log: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    monkeypatch.setattr(snapshot, "LONG_ROWS", 1000)
    snapshots = Snapshots(log)
    make_snapshots(log)
    head = max(snapshots.seqs())
    if made == "foreign":
        monkeypatch.setattr(snapshot, "FOLD", "of another release")
    if made == "none":
        snapshots.keep_only({})
    after = head if made == "ours" else 0
    with SqliteReader.open(log) as reader:
        said = snapshot.slow_fold(reader, snapshots, after, head)
    remedy = f"`trioroute log snapshot {log}` makes new ones, and so does a router that runs"
    if made == "foreign":
        assert said == (
            f"{head} events must be folded first, which takes a while: the 1 snapshot there "
            f"cannot be used, being of another release; {remedy}"
        )
    elif made == "none":
        assert f"no snapshot lies nearer; {remedy}" in said
    else:
        assert said == ""
