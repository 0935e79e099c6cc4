"""deploy/litestream/follow.sh: Litestream on the open segment, segment after segment.

With ``litestream`` on the PATH it is that; else a stand-in, which does to a file what Litestream
does (tables of its own, a transaction that reads for as long as it runs) and copies it at its end.
"""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlog import Entry
from eventlog.check import check_log
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteStore
from eventlog.sqlite_segment import is_sealed, seal
from tests.e2e.fleet import wait_for
from tests.house.source import ROOT

FOLLOW = ROOT / "deploy" / "litestream" / "follow.sh"

STAND_IN = """#!{python}
import pathlib, signal, sqlite3, sys
verb, *words = sys.argv[1:]
def copied(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(source) as old, sqlite3.connect(target) as new:
        old.backup(new)
if verb == "restore":
    _, output, url = words
    copied(pathlib.Path(url.removeprefix("file://")) / "copy", pathlib.Path(output))
    sys.exit()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
path, url = words
base = sqlite3.connect(path, isolation_level=None, timeout=10)
for table in ("_litestream_seq", "_litestream_lock"):
    base.execute(f"CREATE TABLE IF NOT EXISTS {{table}} (id INTEGER PRIMARY KEY, seq INTEGER)")
base.execute("BEGIN")
base.execute("SELECT count(*) FROM _litestream_seq").fetchall()
signal.sigwait([signal.SIGTERM])
base.close()
copied(path, pathlib.Path(url.removeprefix("file://")) / "copy")
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    if shutil.which("litestream") is None:
        stand_in = tmp_path / "bin" / "litestream"
        stand_in.parent.mkdir()
        stand_in.write_text(STAND_IN.format(python=sys.executable))
        stand_in.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


@contextlib.contextmanager
def following(log: Path, replica: Path, environ: dict[str, str]) -> Iterator[None]:
    command = ["sh", str(FOLLOW), str(log), f"file://{replica}"]
    with subprocess.Popen(command, env=environ) as script:
        try:
            yield
            script.send_signal(signal.SIGTERM)
            assert script.wait(60) == 0
        finally:
            script.kill()


def fill(store: SqliteStore, count: int) -> None:
    """``count`` rows more; the segment closes behind a hundred or so."""
    for _ in range(count):
        begun = store.last_head.seq
        store.append("a", [Entry("Noted", 1, begun, 0, b'{"x":"%s"}' % (b"y" * 500))], begun)


def followed(log: Path) -> bool:
    """Whether Litestream has the newest segment open: its table is there."""
    with contextlib.closing(sqlite3.connect(list_segments(log)[-1].path)) as base:
        found = base.execute("SELECT 1 FROM sqlite_master WHERE name = '_litestream_seq'")
        return found.fetchone() is not None


def test_the_open_segment_is_followed_the_closed_ones_are_freed_and_all_can_be_restored(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    log, replica, back = tmp_path / "log", tmp_path / "replica", tmp_path / "back"
    limits = SegmentLimits(64 * 1024, 10**12)
    with contextlib.closing(SqliteStore.open(log, limits=limits)) as store:
        fill(store, 10)
        with following(log, replica, environ):
            for files in (2, 3):
                wait_for("the newest is followed", lambda: followed(log))
                while len(list_segments(log)) < files:
                    fill(store, 1)
            wait_for("the newest is followed", lambda: followed(log))
            closed = [file.path for file in list_segments(log)[:-1]]
            wait_for("freed", lambda: all(seal(path) for path in closed))
            fill(store, 5)
        assert all(is_sealed(path) for path in closed), "log.archive and retention take them"
        head = store.last_head
    back.mkdir()
    for file in list_segments(log):
        name = file.path.name
        command = ["litestream", "restore", "-o", str(back / name), f"file://{replica / name}"]
        subprocess.run(command, env=environ, check=True, timeout=100)
    found = check_log(back)
    assert not found.bad
    assert found.head == head
