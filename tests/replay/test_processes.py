"""``replay --verify`` by processes of its own: what is told, and that none of them is left."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.snapshots import Snapshots
from eventlog.sqlite import SqliteReader, SqliteStore
from tests.ended import ended
from tests.replay.cut_logs import judged, keep_snapshots, rewrite, write_log
from tests.replay.rig import STREAM, busy_day, changed
from tests.replay.test_command import run
from tests.rig import Rig
from trioroute.replay import joined, processes, stretches, verify
from trioroute.replay.read import Source

WAIT_S = 60
JUDGE = """
import sys
from pathlib import Path
from eventlog.reading import SqliteReader
from eventlog.snapshots import Snapshots
from trioroute.replay import stretches
from trioroute.replay.read import Source
from trioroute.replay.verify import verify
if __name__ == "__main__":
    log = Path(sys.argv[1])
    with SqliteReader.open(log) as reader:
        print("begun", flush=True)
        verify(Source(reader, False, Snapshots(log)), processes=3)
"""


@pytest.fixture(scope="module")
def day() -> Rig:
    return busy_day(1200)


@pytest.fixture(scope="module")
def day_log(tmp_path_factory: pytest.TempPathFactory, day: Rig) -> Path:
    """With snapshots; tests that change it take a copy."""
    log = write_log(tmp_path_factory.mktemp("day") / "log", day.log.entries)
    keep_snapshots(log, 400)
    return log


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "STRETCH_ROWS", 200)


def test_several_processes_find_what_one_finds(tmp_path: Path, day: Rig, day_log: Path) -> None:
    assert judged(day_log, 2) == judged(day_log, 0)
    numbers = [n for n, entry in enumerate(day.log.entries, 1) if entry.kind == "Dispatched"]
    log = write_log(tmp_path / "not", changed(day.log.entries, numbers[800], weight_m=7))
    keep_snapshots(log, 400)
    assert judged(log, 3) == judged(log, 0)


@pytest.fixture
def second_thread() -> Iterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    yield
    over.set()
    thread.join()


def test_behind_a_second_thread_nothing_is_forked(day_log: Path, second_thread: None) -> None:
    assert processes._context().get_start_method() == "spawn"
    assert judged(day_log, 2) == judged(day_log, 0)


def test_a_fork_has_no_connection_of_its_parent(day_log: Path) -> None:
    def jobs() -> Iterator[tuple[int]]:
        for number in range(4):
            assert reader._open == {}, "nothing is read while processes start"
            yield (number,)

    with SqliteReader.open(day_log) as reader:
        assert reader.read(0, 1)
        given = list(processes.in_order(Source(reader), done_by, jobs(), 2))
        assert [number for number, _ in given] == [0, 1, 2, 3]
        assert os.getpid() not in {pid for _, pid in given}
        assert reader.read(0, 1)


def done_by(source: Source, number: int) -> tuple[int, int]:
    return number, os.getpid()


def test_work_that_is_shared_out_begins_in_this_process_and_comes_in_order(
    day_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "RESULTS_MAX", 5)
    given: list[int] = []

    def jobs() -> Iterator[tuple[int]]:
        for number in range(30):
            given.append(number)
            yield (number,)

    with SqliteReader.open(day_log) as reader:
        results = processes.shared_out(Source(reader), done_by, jobs(), 2)
        assert next(results) == (0, os.getpid())
        assert next(results) != (1, os.getpid())
        assert len(given) < 15  # what waits for a slow process is bounded
        assert [number for number, _ in results] == list(range(2, 30))


def test_processes_that_die_leave_the_rest_to_this_one(
    day_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_open", "".join)  # called with what it cannot join
    assert judged(day_log, 2) == judged(day_log, 0)


def test_a_log_that_grows_is_judged_up_to_where_it_was(tmp_path: Path, day: Rig) -> None:
    entries = day.log.entries
    log = write_log(tmp_path / "log", entries[:2000])
    keep_snapshots(log, 400)
    with closing(SqliteStore.open(log, sync="normal")) as store:
        with SqliteReader.open(log) as reader:
            told: list[tuple[int, int]] = []

            def progress(done: int, of: int) -> None:
                if not told:
                    store.append(STREAM, entries[2000:], 2000)
                told.append((done, of))

            found = verify.verify(Source(reader, snapshots=Snapshots(log)), progress, processes=2)
    assert found.head.seq == found.events == 2000
    assert told == sorted(told)
    assert told[-1] == (2000, 2000)
    assert len(told) >= 4


def test_a_short_log_starts_no_process(day_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "cores", lambda: 4)
    started: list[int] = []

    def none(source: object, work: object, jobs: object, count: int) -> Iterator[None]:
        started.append(count)
        yield from ()

    monkeypatch.setattr(joined, "shared_out", none)
    with SqliteReader.open(day_log) as reader:
        source = Source(reader, snapshots=Snapshots(day_log))
        assert verify.verify(source).good
        assert started == []
        monkeypatch.setattr(verify, "WORTH_ROWS", 1000)
        assert verify.verify(source).good
        source.spared_cores = 3
        assert verify.verify(source).good
    assert started == [4]


def test_the_command_warns_of_a_snapshot_that_is_false(
    tmp_path: Path, day_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Path(shutil.copytree(day_log, tmp_path / "log"))
    true = run(log, "--verify", "--json")
    rewrite(log, 800, checked_at=999)
    monkeypatch.setattr(verify, "WORTH_ROWS", 1000)
    monkeypatch.setattr(processes, "cores", lambda: 2)
    found = run(log, "--verify", "--json")
    assert (found.exit_code, json.loads(found.stdout)) == (0, json.loads(true.stdout))
    assert "the snapshot after row 800 does not tell of the state" in found.stderr
    assert str(Snapshots(log).path(800)) in found.stderr


def children_of(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_none_is_left_however_it_ends(tmp_path: Path, day_log: Path, how: signal.Signals) -> None:
    script = tmp_path / "judge.py"
    script.write_text(JUDGE.replace("if __name__", "stretches.STRETCH_ROWS = 200\nif __name__"))
    with (
        subprocess.Popen(
            [sys.executable, str(script), str(day_log)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process,
        ended(process),
    ):
        assert process.stdout is not None
        process.stdout.readline()
        until = time.monotonic() + WAIT_S
        while len(children_of(process.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        own = children_of(process.pid)
        assert len(own) == 2
        process.send_signal(how)
        process.wait(WAIT_S)
    while any(map(alive, own)) and time.monotonic() < until:
        time.sleep(0.01)
    left = [pid for pid in own if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
