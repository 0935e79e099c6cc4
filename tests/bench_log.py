"""What the log costs: ``python -m tests.bench_log [EVENTS]``. Prints figures, asserts nothing.

CPU time where it is a cost, wall time where somebody waits. The log is a course of real decisions
(``tests.replay.rig``), repeated until it has so many events (200,000; 10000000 takes an hour).
"""

import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import attrs
import orjson
import trio

from eventlog import Entry
from eventlog.check import check_log
from eventlog.journal import Journal
from eventlog.memory import MemoryStore
from eventlog.snapshots import Snapshots
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from tests.replay.rig import STREAM, busy_day
from trioroute.recovery import recover
from trioroute.replay.read import Source
from trioroute.replay.verify import verify
from trioroute.snapshot import make_snapshots

DECISIONS = 20_000
BATCH = 128


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
    for sync in ("normal", "full"):
        with closing(SqliteStore.open(directory / sync, sync=sync)) as store:

            def work(store: SqliteStore = store) -> None:
                for n in range(0, len(entries), BATCH):
                    store.append(STREAM, entries[n : n + BATCH], n)

            cpu, wall = timed(work)
        say(f"commit, {BATCH} events each, sync={sync}", len(entries) / wall, "events/s")
        say("  CPU per event", cpu * 1e6 / len(entries), "µs")


def moved(entries: list[Entry], by: int) -> list[Entry]:
    made = []
    for entry in entries:
        body = orjson.loads(entry.body)
        if "dispatch" in body:
            body["dispatch"] += by
        for name in ("dispatches", "earlier"):
            if name in body:
                body[name] = [number + by for number in body[name]]
        made.append(attrs.evolve(entry, body=orjson.dumps(body)))
    return made


def written(directory: Path, entries: list[Entry], events: int) -> None:
    """The course again and again in one stream, its dispatch numbers moved on each time."""
    limits = SegmentLimits(256 << 20)
    with closing(SqliteStore.open(directory, sync="normal", limits=limits)) as store:
        version = 0
        while version < events:
            part = moved(entries[: events - version], version)
            for n in range(0, len(part), 2000):
                store.append(STREAM, part[n : n + 2000], version + n)
            version += len(part)
    size = sum(path.stat().st_size for path in directory.glob("log-*"))
    say("stored per event", size / events, "bytes")


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
        written(once, entries, len(entries))
        with SqliteReader.open(once) as reader:
            cpu, _ = timed(lambda: recover(reader, STREAM))
            say("fold from SQLite, CPU", len(entries) / cpu, "events/s")
            cpu, _ = timed(lambda: verify(Source(reader)))
            say("replay --verify, CPU", DECISIONS / cpu, "decisions/s")
        cpu, _ = timed(lambda: check_log(once))
        say("chain check, CPU", len(entries) / cpu, "events/s")
        long = directory / "long"
        written(long, entries, events)
        say(f"log of {events:,}: head", json.loads(_info(long))["head"]["seq"], "")
        _, wall = timed(lambda: make_snapshots(long))
        say("  first snapshot", wall, "s")
        with SqliteReader.open(long) as reader:
            _, wall = timed(lambda: recover(reader, STREAM, Snapshots(long)))
        say("  recovery with a snapshot at the end", wall * 1000, "ms")
        say("  log verify, peak memory", memory_of("log", "verify", str(long)), "MiB")
    say(
        "this process, peak memory",
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "MiB",
    )


def _info(log: Path) -> str:
    command = [sys.executable, "-m", "trioroute", "log", "info", str(log), "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
