"""Reading a log as it grows."""

from collections.abc import AsyncGenerator

import trio

from eventlog.errors import gap
from eventlog.record import Record
from eventlog.store import LogReader


async def follow(
    store: LogReader,
    after: int = 0,
    *,
    poll_ms: int = 200,
    page: int = 1000,
    threaded: bool = True,
) -> AsyncGenerator[Record, None]:
    """Every record after ``after``, once and in order, for ever: what is there, then what comes.

    An idle log is looked at every ``poll_ms``. Pages are read in a worker thread; with
    ``threaded=False`` in the loop itself, for stores in memory under a virtual clock. With
    ``after=0`` it begins at the oldest row kept. Raises LogDamaged if rows are missing, and what
    ``read`` raises. Close it when leaving early (``contextlib.aclosing``).
    """
    while True:
        if threaded:
            records = await trio.to_thread.run_sync(store.read, after, page)
        else:
            records = store.read(after, page)
        for record in records:
            if record.seq != after + 1 and after:
                raise gap("the followed log", after + 1, record.seq)
            after = record.seq
            yield record
        if len(records) < page:
            await trio.sleep(poll_ms / 1000)
