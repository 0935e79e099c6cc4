"""Faults of logs on disk: torn tails, short writes, failed syncs, damage, readers (group L)."""

import contextlib
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from eventlog import Entry, Head, StoreFailed
from eventlog.chain import verify_chain
from eventlog.conformance import read_all, some_entries
from eventlog.record import same_entries
from eventlog.schema import PAGE_BYTES
from eventlog.sqlite import SqliteReader, SqliteStore
from tests.field.site import OpenSite
from tests.field.stub import Stub
from tests.proxy.scripted import OK, always
from tests.replay.rig import STREAM
from tests.scenario import play
from tests.small_disk import fill, mounted
from trioroute import events as e
from trioroute.assembly import assemble, open_log
from trioroute.cli.root import main
from trioroute.policy.keys import KEY_BYTES
from trioroute.settings import load

ROOT = Path(__file__).parents[2]
LOG, WAL = "log-1.sqlite", "log-1.sqlite-wal"
FRAME = PAGE_BYTES + 24
"""A page of SQLite's write-ahead log and its header."""


def cuts(size: int) -> Iterator[int]:
    """Where a file is cut: around each frame's border, and in between."""
    for border in range(32, size + 1, FRAME):
        yield from (at for at in (border - 1, border, border + 24, border + 2000) if at <= size)


def test_corrupt_log_tail(tmp_path: Path) -> None:
    """Whatever is left of the tail, the log opens by itself and goes on behind the last row."""
    original = tmp_path / "original"
    store = SqliteStore.open(original, sync="normal")
    for at in range(12):
        store.append("a", some_entries(1, at), at)
    size = (original / WAL).stat().st_size
    seen: set[int] = set()
    for number, cut in enumerate(cuts(size)):
        torn = tmp_path / f"torn{number}"
        torn.mkdir()
        shutil.copy(original / LOG, torn / LOG)
        (torn / WAL).write_bytes((original / WAL).read_bytes()[:cut])
        with closing(SqliteStore.open(torn, sync="normal")) as again:
            kept = len(read_all(again))
            seen.add(kept)
            again.append("a", some_entries(10, kept), kept)
        with closing(SqliteReader.open(torn)) as reader:
            records = reader.read()
            assert same_entries(records, some_entries(kept + 10))
            assert verify_chain(records, Head()) == reader.head()
        shutil.rmtree(torn)
    assert seen == set(range(13)), "every cut but the last loses a suffix, none makes a hole"
    store.close()


def writer(*arguments: object, under: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*under, sys.executable, "-m", "tests.field.log_writer", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_partial_append_not_rolled_back(tmp_path: Path) -> None:
    """A write that ends short in mid-row, three times, then room: no break, nothing is lost."""
    done = writer("short", tmp_path / "log", 100_000)
    assert done.returncode == 0, done.stderr
    with closing(SqliteReader.open(tmp_path / "log")) as reader:
        records = reader.read()
        assert len(records) == int(done.stdout) == 40
        verify_chain(records, Head())


def test_failed_sync_acknowledges_nothing(tmp_path: Path) -> None:
    """Between two acknowledgements lies a sync that succeeded, also when some of them fail."""
    trace = tmp_path / "trace"
    strace = ("strace", "-f", "-o", str(trace), "-e", "trace=fdatasync,fsync,write")
    faults = ("-e", "inject=fdatasync,fsync:error=EIO:when=4..6")
    SqliteStore.open(tmp_path / "log").close()
    try:
        done = writer("acknowledge", tmp_path / "log", 12, under=(*strace, *faults))
    except FileNotFoundError:
        pytest.skip("strace, which makes syncs fail, is not installed")
    if "ptrace" in done.stderr:
        pytest.skip("this machine does not let strace look at a process")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(at) for at in range(1, 13)]
    synced = failed = 0
    for line in trace.read_text().splitlines():
        if re.search(r"f(data)?sync\(|f(data)?sync resumed", line):
            synced += line.endswith("= 0")
            failed += "EIO" in line
        elif re.search(r'write\(1, "\d+\\n"', line):
            assert synced, "acknowledged without a sync"
            synced = 0
    assert failed >= 3
    with closing(SqliteReader.open(tmp_path / "log")) as reader:
        records = reader.read()
        assert same_entries(records, some_entries(12))
        verify_chain(records, Head())


# Damage in the middle


def _rows(change: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as base:
            base.executescript(change)
            base.commit()

    return damage


def _zero_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // PAGE_BYTES * PAGE_BYTES)
        file.write(bytes(PAGE_BYTES))


COLUMNS = "(kind, schema, at_ms, seen, body, chain)"
DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "byte": (
        _rows("UPDATE events SET body = replace(body, '\"', '''') WHERE seq = 500"),
        "the row of seq 500",
    ),
    "page": (_zero_page, "malformed"),
    "duplicate": (
        _rows(
            f"UPDATE events SET {COLUMNS} = (SELECT kind, schema, at_ms, seen, body, chain"
            " FROM events WHERE seq = 500) WHERE seq = 501"
        ),
        "the row of seq 501",
    ),
    "swap": (
        _rows(
            "UPDATE events SET seq = -1, version = -1 WHERE seq = 500;"
            "UPDATE events SET seq = 500, version = 500 WHERE seq = 501;"
            "UPDATE events SET seq = 501, version = 501 WHERE seq = -1;"
        ),
        "the row of seq 500",
    ),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of a router's course, over a thousand rows long."""
    entries = play(7, 1300).log.entries
    directory = tmp_path_factory.mktemp("sound") / "log"
    with closing(SqliteStore.open(directory, sync="normal")) as store:
        store.append(STREAM, entries, 0)
    assert len(entries) > 1000
    return directory


@pytest.mark.parametrize("what", DAMAGES)
def test_mid_log_corruption(tmp_path: Path, sound: Path, what: str) -> None:
    """It is detected with its place, nothing is cut, and the rows before it can still be read."""
    log = tmp_path / "log"
    shutil.copytree(sound, log)
    good = CliRunner().invoke(main, ["replay", str(log), "--verify"])
    assert good.exit_code == 0, good.output
    damage, place = DAMAGES[what]
    damage(log / LOG)
    before = sha256((log / LOG).read_bytes()).digest()
    found = CliRunner().invoke(main, ["replay", str(log), "--verify"])
    assert found.exit_code == 1
    assert place in found.output
    assert sha256((log / LOG).read_bytes()).digest() == before
    with closing(SqliteReader.open(log)) as reader:
        assert len(reader.read(0, 100)) == 100


# Readers


def test_checkpoint_starvation(tmp_path: Path) -> None:
    """A foreign reader that holds a transaction keeps the side file; without it, it shrinks.

    Our own readers hold none between pages (clause E6 of the log).
    """
    log = tmp_path / "log"
    body = b'"' + b"y" * 60_000 + b'"'
    with closing(SqliteStore.open(log, sync="normal")) as store:
        store.append("a", [Entry("k", 1, 0, 0, body)], 0)
        with closing(sqlite3.connect(log / LOG)) as foreign, closing(SqliteReader.open(log)) as own:
            foreign.execute("BEGIN")
            foreign.execute("SELECT count(*) FROM events").fetchone()
            for at in range(1, 300):
                store.append("a", [Entry("k", 1, 0, 0, body)] * 2, at * 2 - 1)
                own.read(at, 1)
            assert (log / WAL).stat().st_size > 32 << 20
            foreign.execute("ROLLBACK")
            for at in range(300, 310):
                store.append("a", [Entry("k", 1, 0, 0, body)] * 2, at * 2 - 1)
                own.read(at, 1)
            assert (log / WAL).stat().st_size <= 16 << 20


async def test_durability_contract(open_site: OpenSite, tmp_path: Path) -> None:
    """A client that has its whole answer: a copy of the disk of that moment has its decision."""
    async with open_site(Stub(always(OK)), log__sync="full") as site:
        for at in range(20):
            answer = await site.ask()
            image = tmp_path / f"image{at}"
            image.mkdir()
            for name in (LOG, WAL):
                shutil.copy(site.log / name, image / name)
            number = int(answer.headers["x-trioroute-decision"].partition("/")[2])
            with closing(SqliteStore.open(image)) as found:
                records = read_all(found)
                verify_chain(records, Head())
                decided = records[number - 1]
            event = e.decode(decided.kind, decided.schema, decided.body)
            assert isinstance(event, e.Dispatched)
            assert event.request_id == answer.headers["x-request-id"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", 1 << 20) as disk:
        yield disk


def begun(log: Path) -> int:
    """Start as ``serve`` does and stop; how many events the log then holds."""
    settings = load(None, environ={}, overrides={"log.path": str(log)})
    with closing(open_log(settings.in_force)) as store:
        return assemble(settings, store, {}).router.state.position


def test_log_disk_full_then_no_start(small_disk: Path) -> None:
    """A full disk is named at the start; with room again it starts by itself, nothing edited."""
    log = small_disk / "log"
    filler = fill(small_disk)
    with pytest.raises(StoreFailed, match=str(log)):
        begun(log)
    for step in (4096, 16384, 65536, 100_000):
        with filler.open("r+b") as file:
            file.truncate(filler.stat().st_size - step)
        with contextlib.suppress(StoreFailed):
            begun(log)
        fill(small_disk)
    filler.unlink()
    assert begun(log) == 0
    with closing(SqliteStore.open(log)) as store, pytest.raises(StoreFailed):
        _append_for_ever(store)
    assert (log / "key").stat().st_size == 2 * KEY_BYTES + 1


def _append_for_ever(store: SqliteStore) -> None:
    entries = play(122, 10).log.entries
    while True:
        store.append(STREAM, entries, store.stream_version(STREAM))
