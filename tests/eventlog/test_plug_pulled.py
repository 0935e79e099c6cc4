"""The plug is pulled: all that was not synced is gone, and nothing acknowledged was in it."""

import math
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from eventlog import Head
from eventlog.chain import verify_chain
from eventlog.conformance import read_all, some_entries
from eventlog.record import same_entries
from eventlog.segments import list_segments
from eventlog.sqlite import SqliteStore
from tests.ended import ended
from tests.eventlog.test_killed import LIMITS, last_told
from tests.preloaded import as_the_disk_has_it, preloaded

HERE = Path(__file__).parent
WRITE = (
    "import sys; from pathlib import Path; from tests.eventlog.test_killed import append_for_ever; "
    "append_for_ever(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]))"
)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return preloaded(HERE / "plug.c", tmp_path_factory.mktemp("plug"))


def write_until_the_plug_is_pulled(
    shim: Path, directory: Path, sync: str, acknowledged: int, rest_at: float = math.inf
) -> tuple[Path, int]:
    """The log as the disk has it then, and the last version that was acknowledged."""
    kept, told = directory.with_name(f"{directory.name}-kept"), directory.with_suffix(".told")
    kept.mkdir()
    directory.mkdir(exist_ok=True)
    plug = {"LD_PRELOAD": str(shim), "PLUG_LOG": str(directory), "PLUG_KEPT": str(kept)}
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(directory), str(told), sync, str(rest_at)],
        cwd=HERE.parents[1],
        env={**os.environ, **plug},
    )
    deadline = time.monotonic() + 100
    with ended(writer):
        while last_told(told) < acknowledged and time.monotonic() < deadline:
            time.sleep(0.005)
    after = as_the_disk_has_it(kept, directory.with_name(f"{directory.name}-after"))
    return after, last_told(told)


@pytest.mark.parametrize("acknowledged", [1, 100, 1500])
def test_every_acknowledged_entry_survives_the_plug(
    shim: Path, tmp_path: Path, acknowledged: int
) -> None:
    log, told = write_until_the_plug_is_pulled(shim, tmp_path / "log", "full", acknowledged)
    assert told >= acknowledged
    with closing(SqliteStore.open(log, limits=LIMITS)) as store:
        records = read_all(store)
        assert len(records) >= told
        assert verify_chain(records, Head()) == store.head()
        assert same_entries(records, some_entries(len(records)))
        store.append("a", some_entries(2, len(records)), len(records))


def test_without_a_sync_for_each_commit_the_plug_takes_acknowledged_entries(
    shim: Path, tmp_path: Path
) -> None:
    """``sync = "normal"`` promises no more than a gapless prefix; and the shim can lose entries."""
    log, told = write_until_the_plug_is_pulled(shim, tmp_path / "log", "normal", 200, 200)
    assert told >= 200
    assert len(list_segments(log)) == 1, "the end of one is synced"
    with closing(SqliteStore.open(log, limits=LIMITS)) as store:
        records = read_all(store)
        assert len(records) < told
        assert same_entries(records, some_entries(len(records)))
