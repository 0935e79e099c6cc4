"""A log whose newest rows are gone with the file that held them: nothing in what is left breaks."""

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from tests.replay.rig import STREAM, busy_day
from trioroute.assembly import open_log
from trioroute.cli.root import main
from trioroute.events.views import VIEWS
from trioroute.settings import load

ENTRIES = busy_day(300).log.entries


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Of several segments, closed in order by who wrote it."""
    log = tmp_path / "log"
    limits = SegmentLimits(size_bytes=100_000)
    with closing(SqliteStore.open(log, sync="normal", limits=limits, views=VIEWS)) as store:
        for n in range(0, len(ENTRIES), 50):
            store.append(STREAM, ENTRIES[n : n + 50], n)
    assert len(list_segments(log)) >= 3
    return log


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def last_of(log: Path) -> int:
    with closing(SqliteReader.open(log)) as reader:
        return reader.head().seq


def lost(log: Path) -> tuple[bool, bool]:
    """Whether verify misses the write-ahead log, and the segment that followed."""
    told = json.loads(run("log", "verify", log, "--json").stdout)
    return told["wal_missing"], told["segment_missing"]


def without_the_newest(log: Path) -> str:
    """What is to be said then."""
    list_segments(log)[-1].path.unlink()
    kept = list_segments(log)[-1].path
    return f"{kept} was closed, so a segment from row {last_of(log) + 1} on was begun"


def test_a_segment_that_is_gone_from_the_end_is_missed_by_everything_that_reads(log: Path) -> None:
    assert lost(log) == (False, False)
    told = without_the_newest(log)
    assert lost(log) == (False, True)
    for words in (("log", "verify", log), ("replay", log, "--requests", "2023-11-14")):
        done = run(*words)
        assert (done.exit_code, told in done.stderr) == (0, True), done.stderr
    info = json.loads(run("log", "info", log, "--json").stdout)
    assert told in info["lost"]
    assert info["segments"][-1]["closed"]


def test_a_router_that_starts_without_the_newest_segment_says_which_numbers_it_gives_again(
    log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = without_the_newest(log)
    settings = load(None, environ={}, overrides={"log.path": str(log)})
    open_log(settings.in_force).close()
    assert told in caplog.text
    assert "gives the numbers of such rows again" in caplog.text
    caplog.clear()
    open_log(settings.in_force).close()
    assert not caplog.text


def test_a_copy_of_the_open_segment_misses_nothing(log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for _ in range(2):
        assert run("log", "archive", log, copy).exit_code == 0
        assert lost(copy) == (False, False)
    assert run("log", "archive", copy, tmp_path / "again").exit_code == 0
    assert lost(tmp_path / "again") == (False, False)
    without_the_newest(copy)
    assert lost(copy) == (False, True)


def test_a_copy_of_a_log_without_its_newest_segment_misses_it_too(
    log: Path, tmp_path: Path
) -> None:
    told = without_the_newest(log)
    done = run("log", "archive", log, tmp_path / "copy")
    assert (done.exit_code, told in done.stderr) == (0, True)
    assert lost(tmp_path / "copy") == (False, True)


@pytest.mark.parametrize("whole", [True, False])
def test_a_bare_copy_of_a_segment_that_is_written_may_lack_rows(
    tmp_path: Path, whole: bool
) -> None:
    log, bare = tmp_path / "log", tmp_path / "bare"
    bare.mkdir()
    with closing(SqliteStore.open(log, sync="normal", views=VIEWS)) as store:
        store.append(STREAM, ENTRIES, 0)
        shutil.copy(log / "log-1.sqlite", bare)
    copy = bare if whole else bare / "log-1.sqlite"
    done = run("log", "verify", copy)
    assert done.exit_code == 0
    assert f"{bare / 'log-1.sqlite'}-wal is not there although its last row" in done.stderr
    assert f"rows after {last_of(bare)} are missing" in done.stderr
    assert lost(copy) == (True, False)
