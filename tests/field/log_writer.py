"""Writers of a log as processes of their own, to be hurt from outside.

``python -m tests.field.log_writer acknowledge DIRECTORY COUNT`` offers entries to a journal one by
one and prints each version once it is durable. ``... short DIRECTORY BYTES`` lets no file grow
beyond so many bytes until an append has failed, and prints what was appended.
"""

import os
import resource
import sys
from pathlib import Path

import trio

from eventlog import Entry, StoreFailed
from eventlog.conformance import some_entries
from eventlog.journal import Journal
from eventlog.sqlite import SqliteStore

BODY = b'"' + b"x" * 5000 + b'"'


async def acknowledge(directory: Path, count: int) -> None:
    store = SqliteStore.open(directory)
    journal = Journal(store, "a")
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        for at in range(count):
            await journal.durable(journal.offer(some_entries(1, at)))
            os.write(1, b"%d\n" % (at + 1))
        journal.close()
    store.close()


def short(directory: Path, size: int) -> None:
    store = SqliteStore.open(directory)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    version = failures = 0
    while failures < 3 or version < 40:
        try:
            store.append("a", [Entry("big", 1, version, 0, BODY)], version)
            version += 1
        except StoreFailed:
            failures += 1
            if failures == 3:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    os.write(1, b"%d\n" % version)
    store.close()


if __name__ == "__main__":
    what, where, number = sys.argv[1:]
    if what == "short":
        short(Path(where), int(number))
    else:
        trio.run(acknowledge, Path(where), int(number))
