"""A process that appends through a journal until it is killed.

Run as ``python -m tests.eventlog.appender DIRECTORY SEGMENT_BYTES``. It offers three entries at a
time and prints each offer's last version once it is durable.
"""

import sys
from pathlib import Path

import trio

from eventlog.conformance import some_entries
from eventlog.journal import Journal
from eventlog.sqlite import SegmentLimits, SqliteStore

PER_OFFER = 3


async def main(directory: Path, segment_bytes: int) -> None:
    store = SqliteStore.open(directory, limits=SegmentLimits(segment_bytes))
    journal = Journal(store, "a", batch_entries=24)
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        while True:
            for _ in range(8):
                last = journal.offer(some_entries(PER_OFFER, journal.position)) + PER_OFFER - 1
                nursery.start_soon(tell, journal, last)
            await trio.lowlevel.checkpoint()
            if journal.depth > 200:
                await journal.durable(last)


async def tell(journal: Journal, version: int) -> None:
    await journal.durable(version)
    sys.stdout.write(f"{version}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
