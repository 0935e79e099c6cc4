"""``trioroute log`` onto a full disk and on a read-only one: the place, the reason, what helps."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from eventlog import Head
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from tests.replay.rig import STREAM, busy_day
from tests.small_disk import fill, mount, mounted
from trioroute.cli.root import main
from trioroute.events.views import VIEWS
from trioroute.snapshot import make_snapshots

NO_ROOM = "No space left on device: free room on its disk"
READ_ONLY = "Read-only file system: nothing can be written there; remount it, or work on a copy"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = tmp_path_factory.mktemp("made") / "log"
    entries = busy_day(300).log.entries
    limits = SegmentLimits(size_bytes=100_000)
    with closing(SqliteStore.open(log, sync="normal", limits=limits, views=VIEWS)) as store:
        for n in range(0, len(entries), 50):
            store.append(STREAM, entries[n : n + 50], n)
    assert len(list_segments(log)) >= 3
    return log


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", 2 << 20) as disk:
        yield disk


@pytest.fixture
def read_only(made_once: Path, disk: Path) -> Path:
    """A log that was stopped in order, with snapshots but for the last rows."""
    shutil.copytree(made_once, disk / "log")
    make_snapshots(disk / "log")
    mount("-o", "remount,ro", str(disk))
    return disk / "log"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["log", *map(str, arguments)])


def head_of(log: Path) -> Head:
    with closing(SqliteReader.open(log)) as reader:
        return reader.head()


@pytest.mark.parametrize("room", [0, 5000])
def test_a_snapshot_without_room_names_its_file_and_leaves_no_draft(
    made_once: Path, disk: Path, room: int
) -> None:
    log = disk / "log"
    shutil.copytree(made_once, log)
    ballast = fill(disk)
    with ballast.open("r+b") as file:
        file.truncate(ballast.stat().st_size - room)
    done = run("snapshot", log)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {log / 'snapshots'}/after-")
    assert done.stderr.endswith(f".snapshot: {NO_ROOM}\n")
    assert not list(log.rglob("*.new"))
    ballast.unlink()
    assert run("snapshot", log).exit_code == 0


@pytest.mark.parametrize("before", [None, b"an earlier export"])
def test_an_export_without_room_leaves_no_part_of_itself(
    made_once: Path, disk: Path, before: bytes | None
) -> None:
    output = disk / "events.jsonl"
    if before is not None:
        output.write_bytes(before)
    fill(disk)
    done = run("export", made_once, "--output", output)
    assert (done.exit_code, done.stderr) == (2, f"Error: {output}: {NO_ROOM}\n")
    assert sorted(path.name for path in disk.iterdir()) == ["ballast"] + (
        [] if before is None else [output.name]
    )
    assert before is None or output.read_bytes() == before


def test_an_export_to_what_is_no_file_is_written_to_it(made_once: Path) -> None:
    words = [sys.executable, "-m", "trioroute", "log", "export", str(made_once)]
    done = subprocess.run(
        [*words, "--output", "/dev/stdout"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[0])["seq"] == 1


@pytest.mark.parametrize("question", ["export", "info", "verify"])
def test_an_answer_that_finds_no_room_is_an_error(made_once: Path, question: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "trioroute", "log", question, str(made_once)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, f"Error: the standard output: {NO_ROOM}\n")


def test_what_only_reads_works_on_read_only_media(read_only: Path, tmp_path: Path) -> None:
    for question in (["info"], ["verify"], ["export"]):
        assert run(*question, read_only).exit_code == 0
    done = run("archive", read_only, tmp_path / "copy")
    assert done.exit_code == 0, done.stderr
    assert head_of(tmp_path / "copy") == head_of(read_only)
    one = run("archive", read_only, tmp_path / "one.sqlite", "--one-file")
    assert one.exit_code == 0, one.stderr
    assert head_of(tmp_path / "one.sqlite") == head_of(read_only)


def test_what_must_write_names_what_it_cannot(read_only: Path, made_once: Path) -> None:
    disk, first = read_only.parent, list_segments(read_only)[0].path
    for place, words in (
        (read_only / "index", ["snapshot", read_only]),
        (first, ["prune", read_only, "--keep", "1KiB"]),
        (disk / "events.jsonl", ["export", read_only, "--output", disk / "events.jsonl"]),
        (disk / "copy", ["archive", made_once, disk / "copy"]),
        (disk / "a.sqlite.part", ["archive", made_once, disk / "a.sqlite", "--one-file"]),
    ):
        done = run(*words)
        assert (done.exit_code, done.stderr) == (2, f"Error: {place}: {READ_ONLY}\n"), words


@pytest.mark.parametrize("in_order", [True, False])
def test_verify_tells_of_a_write_ahead_log_that_is_not_there(
    made_once: Path, tmp_path: Path, in_order: bool
) -> None:
    log = tmp_path / "log"
    shutil.copytree(made_once, log)
    rows = head_of(log)
    newest = list_segments(log)[-1].path
    with closing(SqliteStore.open(log, sync="normal")) as store:
        store.append(STREAM, busy_day(3).log.entries[-1:], store.last_head.seq)
        owner, data = (log / "owner.lock").read_bytes(), newest.read_bytes()
        assert run("verify", log).stderr == "", "its router runs"
    newest.write_bytes(data)
    if not in_order:
        (log / "owner.lock").write_bytes(owner)
    done = run("verify", log)
    assert done.exit_code == 0
    told = f"Warning: {newest}-wal is not there although the router that wrote it did not end in"
    assert done.stderr.startswith(told) is not in_order
    assert in_order or f"rows after {rows.seq} are missing" in done.stderr
    assert json.loads(run("verify", log, "--json").stdout)["wal_missing"] is not in_order
