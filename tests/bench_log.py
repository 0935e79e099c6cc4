"""What the log costs: ``python -m tests.bench_log [EVENTS]``. Prints figures, asserts nothing.

CPU time where it is a cost, wall time where somebody waits. The short log is a course of real
decisions (``tests.replay.rig``), the long one (200,000 events; 10000000 takes an hour) is that of
``tests.long_log``.
"""

import gc
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import product
from pathlib import Path

import orjson
import trio

from eventlog import Entry, Record
from eventlog.check import check_log
from eventlog.journal import BATCH_ENTRIES, Journal
from eventlog.memory import MemoryStore
from eventlog.snapshots import Snapshots
from eventlog.sqlite import SqliteReader, SqliteStore
from eventlog.sqlite_segment import Sync
from tests.long_log import write_long_log
from tests.replay.rig import STREAM, busy_day
from trioroute.rare_gc import rare_gc
from trioroute.recovery import recover
from trioroute.replay.clock import utc_iso
from trioroute.replay.processes import cores
from trioroute.replay.read import Source, decision_name
from trioroute.replay.verify import verify
from trioroute.row_index import make_index
from trioroute.snapshot import make_snapshots

DECISIONS = 20_000
BATCHES = (128, BATCH_ENTRIES)
"""Events a commit: a router that keeps up, and one that is behind, which commits all there is."""
HOUR_MS = 3_600_000
"""The span of ``--incident``: an hour at 200 requests a second (2.3 million events), or what there
is of it; 5 million events hold one behind the middle."""


def say(name: str, value: float, unit: str) -> None:
    sys.stdout.write(f"{name:<44} {value:>12,.1f} {unit}\n")
    sys.stdout.flush()


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of CPU and of the wall."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def offers(entries: list[Entry]) -> None:
    """The loop's part: an offer, in twos, into a journal whose store does nothing slow."""

    async def main() -> None:
        journal = Journal(MemoryStore(), STREAM, max_entries=10**9, max_bytes=10**12)
        begin = time.thread_time_ns()
        for n in range(0, len(entries), 2):
            journal.offer(entries[n : n + 2])
        say("offer, loop CPU per event", (time.thread_time_ns() - begin) / 1e3 / len(entries), "µs")

    trio.run(main)


def commits(directory: Path, entries: list[Entry]) -> None:
    syncs: tuple[Sync, ...] = ("normal", "full")
    for sync, batch in product(syncs, BATCHES):
        with closing(SqliteStore.open(directory / f"{sync}-{batch}", sync=sync)) as store:

            def work(store: SqliteStore = store, batch: int = batch) -> None:
                for n in range(0, len(entries), batch):
                    store.append(STREAM, entries[n : n + batch], n)

            cpu, wall = timed(work)
        say(f"commit, {batch} events each, sync={sync}", len(entries) / wall, "events/s")
        say("  CPU per event", cpu * 1e6 / len(entries), "µs")


def written(directory: Path, entries: list[Entry]) -> None:
    with closing(SqliteStore.open(directory, sync="normal")) as store:
        for n in range(0, len(entries), 2000):
            store.append(STREAM, entries[n : n + 2000], n)


def stored(directory: Path, events: int) -> None:
    size = sum(path.stat().st_size for path in directory.glob("log-*"))
    say("  stored per event", size / events, "bytes")
    size = sum(path.stat().st_size for path in directory.glob("snapshots/*"))
    say("  snapshots per event", size / events, "bytes")
    size = sum(path.stat().st_size for path in directory.glob("index/*"))
    say("  index per event", size / events, "bytes")


def asked(log: Path, *question: str) -> None:
    """CPU and memory of ``trioroute replay``, the start of the program included."""
    code = (
        "import resource, subprocess, sys, time; "
        "begin = time.perf_counter(); "
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); "
        "wall = time.perf_counter() - begin; "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(used.ru_utime + used.ru_stime, wall, used.ru_maxrss)"
    )
    words = ["-m", "trioroute", "replay", str(log), *question]
    command = [sys.executable, "-c", code, sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    cpu_s, wall_s, kilobytes = map(float, done.stdout.split())
    say(f"  replay {question[0]}, CPU", cpu_s, "s")
    say("    wall", wall_s, "s")
    say("    peak memory of its largest process", kilobytes / 1024, "MiB")


def memory_of(*arguments: str) -> float:
    """The largest resident size of a command, in MiB."""
    code = (
        "import resource, subprocess, sys; "
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [sys.executable, "-c", code, sys.executable, "-m", "trioroute", *arguments]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1024


def main(events: int) -> None:
    rig = busy_day(DECISIONS)
    entries = rig.log.entries
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        offers(entries)
        commits(directory, entries)
        once = directory / "once"
        written(once, entries)
        with SqliteReader.open(once) as reader:
            cpu, _ = timed(lambda: recover(reader, STREAM))
            say("fold from SQLite, CPU", len(entries) / cpu, "events/s")
            with rare_gc():  # as the command does
                cpu, _ = timed(lambda: verify(Source(reader)))
            say("replay --verify, CPU", DECISIONS / cpu, "decisions/s")
        cpu, _ = timed(lambda: check_log(once))
        say("chain check, CPU", len(entries) / cpu, "events/s")
        long_log(directory / "long", events)
    say(
        "this process, peak memory",
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "MiB",
    )


def session_of(row: Record) -> str:
    return orjson.loads(row.body)["session"] or ""


def judged(log: Path) -> None:
    """``--verify`` by this process alone and by as many as there are cores, in turns."""
    with SqliteReader.open(log) as reader, rare_gc():
        source = Source(reader, snapshots=Snapshots(log))
        decisions = verify(source, processes=0).decisions  # the file is in memory from here on
        for processes, name in ((0, "one process"), (cores(), f"{cores()} processes")) * 2:
            _, wall = timed(partial(verify, source, processes=processes))
            say(f"  replay --verify, {name}, wall", decisions / wall, "decisions/s")


def long_log(directory: Path, least: int) -> None:
    events = write_long_log(directory, least)
    say("long log", events, "events")
    _, wall = timed(lambda: make_snapshots(directory))
    say("  its snapshots", wall, "s")
    _, wall = timed(lambda: make_index(directory))
    say("  its index", wall, "s")
    stored(directory, events)
    with SqliteReader.open(directory) as reader:
        _, wall = timed(lambda: recover(reader, STREAM, Snapshots(directory)))
        say("  recovery with a snapshot at the end", wall * 1000, "ms")
        rows = [row for row in reader.read(events // 2) if row.kind == "Dispatched"]
    middle = rows[0]
    asked(directory, "--decision", decision_name(middle.stream, middle.version))
    asked(directory, "--incident", f"{utc_iso(middle.at_ms)}/{utc_iso(middle.at_ms + HOUR_MS)}")
    span = f"{utc_iso(middle.at_ms)}/{utc_iso(middle.at_ms + HOUR_MS // 6)}"
    asked(directory, "--requests", span, "--where", "attempt=failed")
    asked(directory, "--replica", "gpu1")
    asked(directory, "--session", next(session_of(row) for row in rows if session_of(row)))
    asked(directory, "--request", orjson.loads(middle.body)["request_id"])
    asked(directory, "--at", utc_iso(middle.at_ms))
    asked(directory, "--verify")
    judged(directory)
    say("  log verify, peak memory", memory_of("log", "verify", str(directory)), "MiB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
