"""What a client waits for the log: ``python -m tests.bench_gate [REQUESTS_PER_S] [SECONDS]``.

Requests come steadily into a real log on this disk, ``sync = "full"``. Each offers one event,
waits until it is durable (an engine that answers at once) or for 20 ms first (a first token), and
offers its end. Wall time: run it on a quiet machine.
"""

import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import quantiles

import trio

from eventlog import Entry
from eventlog.journal import Journal
from eventlog.sqlite import SqliteStore

BODY = b'{"request_id":"req-0123456789abcdef",' + b'"a":1,' * 30 + b'"z":0}'


class Requests:
    """Ask a journal as a router does; ``waits_ms`` is what each waited after its first token."""

    def __init__(self, journal: Journal, first_token_s: float) -> None:
        self._journal = journal
        self._first_token_s = first_token_s
        self.waits_ms: list[float] = []

    async def one(self) -> None:
        journal = self._journal
        number = journal.offer([Entry("Dispatched", 1, time.time_ns() // 10**6, 0, BODY)])
        if self._first_token_s:
            await trio.sleep(self._first_token_s)
        begin_s = time.perf_counter()
        await journal.durable(number)
        self.waits_ms.append((time.perf_counter() - begin_s) * 1e3)
        journal.offer([Entry("Released", 1, time.time_ns() // 10**6, 0, BODY)], must_take=True)

    async def at(self, per_s: int, seconds: float) -> None:
        begin_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(int(per_s * seconds)):
                await trio.sleep_until(begin_s + number / per_s)
                nursery.start_soon(self.one)


async def measure(directory: Path, per_s: int, seconds: float, first_token_s: float) -> None:
    with closing(SqliteStore.open(directory, sync="full")) as store:
        journal = Journal(store, "router/r1")
        requests = Requests(journal, first_token_s)
        async with trio.open_nursery() as nursery:
            await nursery.start(journal.run)
            cpu_s = time.process_time()
            await requests.at(per_s, seconds)
            cpu_us = (time.process_time() - cpu_s) / len(requests.waits_ms) * 1e6
            commits = journal.commits / seconds
            journal.close()
    cuts = quantiles(requests.waits_ms, n=100)
    sys.stdout.write(
        f"{per_s}/s, first token after {first_token_s * 1e3:.0f} ms: wait p50 {cuts[49]:.2f} ms,"
        f" p90 {cuts[89]:.2f}, p99 {cuts[98]:.2f}; {commits:.0f} commits/s;"
        f" {cpu_us:.0f} µs of CPU a request\n"
    )


def main(per_s: int, seconds: float) -> None:
    for first_token_s in (0.0, 0.02):
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
            trio.run(measure, Path(directory), per_s, seconds, first_token_s)


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 1000,
        float(sys.argv[2]) if len(sys.argv) > 2 else 5,
    )
