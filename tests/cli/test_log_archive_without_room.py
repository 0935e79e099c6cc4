"""``trioroute log archive`` leaves nothing that was not there, unless it is a part of the copy."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from eventlog.conformance import some_entries
from eventlog.made import made
from eventlog.ownership import Ownership
from eventlog.sqlite import SegmentLimits, SqliteStore
from tests.small_disk import fill, mounted
from trioroute.cli.root import main


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made") / "log"
    limits = SegmentLimits(size_bytes=100_000)
    with closing(SqliteStore.open(directory, sync="normal", limits=limits)) as store:
        for n in range(0, 3000, 500):
            store.append("a", some_entries(500, n), n)
    return directory


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", 1 << 20) as place:
        yield place


def archived(log: Path, target: Path) -> int:
    return CliRunner().invoke(main, ["log", "archive", str(log), str(target)]).exit_code


@pytest.mark.parametrize("room", [0, 4096, 12_288, 40_000, 60_000])
def test_directories_that_were_made_for_it_go_where_no_segment_found_room(
    log: Path, disk: Path, room: int
) -> None:
    ballast = fill(disk)
    with ballast.open("r+b") as file:
        file.truncate(max(ballast.stat().st_size - room, 0))
    assert archived(log, disk / "backup" / "week" / "copy") == 2
    assert [path.name for path in disk.iterdir()] == ["ballast"]


def test_segments_that_were_copied_stay_for_the_next_time(log: Path, disk: Path) -> None:
    ballast = fill(disk)
    with ballast.open("r+b") as file:
        file.truncate(ballast.stat().st_size - 300_000)
    assert archived(log, disk / "copy") == 2
    assert list((disk / "copy").glob("log-*.sqlite"))
    ballast.unlink()
    assert archived(log, disk / "copy") == 0


def test_a_directory_that_was_there_stays(log: Path, disk: Path) -> None:
    (disk / "copy").mkdir()
    fill(disk)
    assert archived(log, disk / "copy") == 2
    assert (disk / "copy").is_dir()


def fails_in(directory: Path, begun: Callable[[], None]) -> None:
    with made(directory):
        begun()
        raise OSError("no more")


def test_what_another_holds_or_has_put_there_by_now_stays(tmp_path: Path) -> None:
    held, used = tmp_path / "a" / "held", tmp_path / "b" / "used"
    owners: list[Ownership] = []
    with pytest.raises(OSError, match="no more"):
        fails_in(held, lambda: owners.append(Ownership.take(held)))
    owners[0].release()
    with pytest.raises(OSError, match="no more"):
        fails_in(used, (used / "of another").touch)
    left = sorted(path.name for path in tmp_path.rglob("*"))
    assert left == ["a", "b", "held", "of another", "owner.lock", "used"]
