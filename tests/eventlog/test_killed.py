"""Kill -9 at random moments, the opening of the log among them: nothing acknowledged is missing.

``EVENTLOG_KILLS`` is the number of kills, 200 for a whole proof.
"""

import math
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from eventlog import Head
from eventlog.chain import verify_chain
from eventlog.conformance import read_all, some_entries
from eventlog.record import same_entries
from eventlog.sqlite import SegmentLimits, SqliteStore, Sync

KILLS = int(os.environ.get("EVENTLOG_KILLS", "30"))
SEED = int(os.environ.get("EVENTLOG_SEED", "1"))
LONGEST_S = 0.06
PATIENCE_S = 100
LIMITS = SegmentLimits(size_bytes=60_000)


def append_for_ever(
    directory: Path, told: Path, sync: Sync = "full", rest_at: float = math.inf
) -> None:
    """Each version is told, by a write that outlives this process, once it is durable. From
    ``rest_at`` on it only waits to be killed."""
    descriptor = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    store = SqliteStore.open(directory, sync=sync, limits=LIMITS)
    version = store.stream_version("a")
    while version < rest_at:
        count = version % 7 + 1
        store.append("a", some_entries(count, version), version)
        version += count
        os.write(descriptor, b"%d\n" % version)
    signal.pause()


def last_told(told: Path) -> int:
    return int(told.read_text().split()[-1]) if told.exists() and told.read_text() else 0


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, "the writer did not begin"
        time.sleep(0.001)


def test_kill_9_at_random_moments_never_takes_what_was_acknowledged(tmp_path: Path) -> None:
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    draw = random.Random(SEED)
    directory, told = tmp_path / "log", tmp_path / "told"
    before = 0
    for kill in range(KILLS):
        writer = processes.Process(target=append_for_ever, args=(directory, told))
        writer.start()
        try:
            if kill % 3:  # every third dies while it opens the log, the others at work
                wait_until(lambda: last_told(told) > 0)
            time.sleep(draw.uniform(0, LONGEST_S))
        finally:
            writer.kill()
            writer.join()
        store = SqliteStore.open(directory, limits=LIMITS)
        count = store.stream_version("a")
        assert count >= max(before, last_told(told)), f"seed {SEED}, kill {kill}"
        store.close()
        told.unlink(missing_ok=True)
        before = count
    assert before > KILLS
    with closing(SqliteStore.open(directory, limits=LIMITS)) as log:
        records = read_all(log)
        assert verify_chain(records, Head()) == log.head()
        assert same_entries(records, some_entries(before))
