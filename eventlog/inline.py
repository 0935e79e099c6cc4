"""The writer of a journal that has no thread: it commits in the loop itself."""

import trio

from eventlog.errors import StoreFailed
from eventlog.store import Store
from eventlog.writer import FIRST_RETRY_S, LONGEST_RETRY_S, Backlog, Batch, Report


class InlineWriter:
    """Commits a backlog at the next step of the scheduler after an offer, in virtual time too.

    For stores whose append does not block, in tests under a mock clock: a worker thread does not
    count as activity there, so time would jump while it works.
    """

    def __init__(self, store: Store, stream: str, backlog: Backlog, report: Report) -> None:
        self._store = store
        self._stream = stream
        self._backlog = backlog
        self._report = report
        self._batch: Batch | None = None
        self._offered = trio.Event()
        self._pause_s = FIRST_RETRY_S

    def wake(self) -> None:
        """Something was put into the backlog."""
        self._offered.set()

    async def pump(self, until: trio.Event) -> None:
        """Commit until ``until`` is set or the backlog has ended.

        May be cancelled and called again: a batch in hand is kept.
        """
        while not until.is_set():
            if self._batch is None:
                self._batch = self._backlog.next_batch()
            if self._batch is not None:
                await self._commit(self._batch)
            elif self._backlog.drained:
                self._report.ended(None)
                return
            else:
                self._offered = trio.Event()
                await self._offered.wait()

    async def _commit(self, batch: Batch) -> None:
        started = trio.current_time()
        try:
            self._store.append(self._stream, batch.entries, batch.first - 1)
        except StoreFailed as exc:
            self._report.failed(exc)
            await trio.sleep(self._pause_s)
            self._pause_s = min(self._pause_s * 2, LONGEST_RETRY_S)
        except Exception as exc:
            self._batch = None
            self._report.ended(exc)
        else:
            self._batch = None
            self._pause_s = FIRST_RETRY_S
            self._report.committed(batch, trio.current_time() - started)
            self._report.look()
            await trio.lowlevel.checkpoint()
