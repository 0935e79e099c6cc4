"""``trioroute log`` and ``replay`` where the disk of the log is full to its last byte."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from eventlog.segments import list_segments
from eventlog.snapshots import Snapshots
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from tests.replay.rig import STREAM, busy_day
from tests.small_disk import fill, mount, mounted
from trioroute.cli.root import main
from trioroute.snapshot import make_snapshots


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments, with a snapshot at each border."""
    log = tmp_path_factory.mktemp("made") / "log"
    entries = busy_day(300).log.entries
    limits = SegmentLimits(size_bytes=100_000)
    with closing(SqliteStore.open(log, sync="normal", limits=limits)) as store:
        for n in range(0, len(entries), 50):
            store.append(STREAM, entries[n : n + 50], n)
    make_snapshots(log)
    assert len(list_segments(log)) >= 3
    return log


@pytest.fixture
def log(made_once: Path, tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", 4 << 20) as disk:
        shutil.copytree(made_once, disk / "log")
        yield disk / "log"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


def test_prune_frees_what_may_go_before_it_writes_anything(log: Path) -> None:
    """The snapshots of later borders are missing, and there is no room for one."""
    first, second, *_ = [file.first for file in list_segments(log)]
    Snapshots(log).keep_only({second - 1})
    with closing(SqliteStore.open(log)):
        fill(log.parent)
        done = run("log", "prune", log, "--keep", "1KiB")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"removed: log-{first}.sqlite, log-{second}.sqlite")
    assert len(list_segments(log)) == 1, "the room of the first was enough for what is made"


def test_prune_without_room_for_the_first_snapshot_says_what_helps(log: Path) -> None:
    newest = list_segments(log)[-1].path.name
    Snapshots(log).keep_only(set())
    with closing(SqliteStore.open(log)):
        ballast = fill(log.parent)
        done = run("log", "prune", log, "--keep", "1KiB")
        assert done.exit_code == 2
        assert done.stdout.startswith("removed: nothing (0 bytes)")
        assert "log-1.sqlite stays: the snapshot at the beginning of" in done.stderr
        assert "there is no room for it (No space left on device): free some" in done.stderr
        assert list(Snapshots(log).directory.iterdir()) == [], "no draft takes room"
        ballast.unlink()
        assert run("log", "prune", log, "--keep", "1KiB").exit_code == 0
    assert [file.path.name for file in list_segments(log)] == [newest]


QUESTIONS = (
    ["log", "info"],
    ["log", "verify"],
    ["log", "export"],
    ["log", "prune", "--keep", "1TiB"],
    ["replay"],
    ["replay", "--verify"],
)


@pytest.fixture
def rows(made_once: Path) -> int:
    with closing(SqliteReader.open(made_once)) as reader:
        return reader.head().seq


def left_by_a_dead_router(log: Path, rows: int) -> None:
    """The last row is in the write-ahead log only, and there is no -shm."""
    name = list_segments(log)[-1].path.name
    with closing(SqliteStore.open(log)) as store:
        store.append(STREAM, busy_day(3).log.entries[-1:], rows)
        alive = {part: (log / part).read_bytes() for part in (name, f"{name}-wal")}
    for part, data in alive.items():
        (log / part).write_bytes(data)


def files(log: Path) -> dict[str, bytes]:
    """All but -shm, which SQLite begins to make beside a write-ahead log."""
    found = [path for path in log.iterdir() if path.is_file() and path.suffix != ".sqlite-shm"]
    return {path.name: path.read_bytes() for path in found}


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
@pytest.mark.parametrize("dead", [False, True], ids=["closed", "died"])
def test_a_stopped_log_is_read_on_a_full_disk(
    log: Path, rows: int, dead: bool, question: list[str]
) -> None:
    if dead:
        left_by_a_dead_router(log, rows)
    fill(log.parent)
    before = files(log)
    done = run(*question, log)
    assert done.exit_code == 0, done.output
    assert files(log) == before
    assert dead or not list(log.glob("*-shm"))
    if question[-1] == "export":
        assert len(done.stdout.splitlines()) == rows + dead


def test_what_a_dead_router_left_is_read_on_read_only_media(log: Path, rows: int) -> None:
    left_by_a_dead_router(log, rows)
    mount("-o", "remount,ro", str(log.parent))
    done = run("log", "export", log)
    assert len(done.stdout.splitlines()) == rows + 1, done.output


def test_without_room_for_a_copy_either_the_remedy_is_named(
    log: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by_a_dead_router(log, rows)
    fill(log.parent)
    monkeypatch.setattr("tempfile.tempdir", str(log.parent))
    monkeypatch.setattr("eventlog.sqlite_opening.MEMORY", log.parent)
    done = run("log", "info", log)
    assert done.exit_code == 2
    assert "no room for" in done.stderr
    assert "TMPDIR" in done.stderr
    assert sorted(path.name for path in log.parent.iterdir()) == ["ballast", "log"]
