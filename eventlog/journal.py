"""A stream's one writer: entries are offered without waiting and become durable behind it."""

import copy
import time
from collections.abc import Callable, Sequence

import trio

from eventlog.chain import check_body
from eventlog.durability import Durability
from eventlog.errors import EntriesLost, JournalFull, LogError, StoreClosed, StoreFailed
from eventlog.inline import InlineWriter
from eventlog.record import Entry
from eventlog.store import Store
from eventlog.turn import TurnsEnd
from eventlog.writer import Backlog, Batch, WriterThread

BATCH_ENTRIES = 4096
RESERVE_ENTRIES = 10_000
RESERVE_BYTES_PER_ENTRY = 1024
STUCK_THREAD_S = 1.0

OnCommit = Callable[[int, float], None]
"""Called in the loop for each commit, when it next looks: its entries, the seconds it took."""


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Journal:
    """One stream of a store, with one writer behind it.

    ``offer`` is a plain call: it gives the entries their versions and never blocks, so a
    decision, its log entry and its effect on the state can be one step. ``run`` commits in the
    same order, many offers a commit, an offer never split; ``durable`` waits for it. A failed
    write is repeated until it works; only a VersionConflict or a closed or damaged store ends the
    journal.

    Bounds: ``max_entries`` and ``max_bytes`` (of bodies) wait at most; ``must_take`` offers may
    go ``reserve_entries`` (and 1 KiB for each) beyond. ``flush_s`` is how long the end of ``run``
    waits for a store that makes no progress. ``clock_ms`` dates :attr:`stalled_since_ms`.
    ``threaded=False`` commits in the loop itself: for stores in memory under a virtual clock,
    where a worker thread would not hold time still. Everything but ``run``'s thread belongs to
    the loop.
    """

    def __init__(
        self,
        store: Store,
        stream: str,
        *,
        max_entries: int = 100_000,
        max_bytes: int = 64 << 20,
        reserve_entries: int = RESERVE_ENTRIES,
        batch_entries: int = BATCH_ENTRIES,
        flush_s: float = 10.0,
        threaded: bool = True,
        on_commit: OnCommit | None = None,
        clock_ms: Callable[[], int] = _wall_clock_ms,
    ) -> None:
        self._store = store
        self._stream = stream
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._reserve_entries = reserve_entries
        self.flush_s = flush_s
        self._threaded = threaded
        self._on_commit = on_commit
        self._clock_ms = clock_ms
        self._position = store.stream_version(stream)
        self._durability = Durability(self._position, self._on_batch)
        self._pending_bytes = 0
        self._backlog = Backlog(batch_entries)
        self._put = self._backlog.put
        self._bell = TurnsEnd(self._backlog.ring)
        self._refusal: LogError | None = None
        self._started = False
        self._stopping = trio.Event()
        self._ended = trio.Event()
        self._dead: LogError | None = None
        self._callback_error: Exception | None = None
        self._flushing: trio.CancelScope | None = None
        self._inline: InlineWriter | None = None
        self._failing: StoreFailed | None = None
        self._stalled_since_ms: int | None = None
        self._commits = 0

    @property
    def position(self) -> int:
        """The version of the last offered entry."""
        return self._position

    @property
    def next_version(self) -> int:
        """The version that the next offered entry will get."""
        return self._position + 1

    @property
    def durable_position(self) -> int:
        """The version up to which everything is committed."""
        return self._durability.position

    @property
    def depth(self) -> int:
        """Entries offered and not yet durable."""
        return self._position - self._durability.position

    @property
    def pending_bytes(self) -> int:
        """Bytes of bodies offered and not yet durable."""
        self._durability.look()
        return self._pending_bytes

    @property
    def bounds(self) -> tuple[int, int]:
        """Entries and bytes that may wait at most."""
        return self._max_entries, self._max_bytes

    @property
    def commits(self) -> int:
        """Appends that succeeded since the start."""
        self._durability.look()
        return self._commits

    @property
    def failing(self) -> StoreFailed | None:
        """Why the last append failed, None once one has succeeded."""
        return self._failing

    @property
    def stalled_since_ms(self) -> int | None:
        """When the store began to fail (``clock_ms``), None while it is healthy."""
        return self._stalled_since_ms

    def offer(self, entries: Sequence[Entry], *, must_take: bool = False) -> int:
        """Take ``entries``, all or none, and return the version of the first.

        ``must_take`` is for what closes something already begun: it has room in the reserve, and
        waits a moment for others to be committed with. Raises JournalFull, StoreClosed
        after ``close``, what ended a dead journal (VersionConflict, StoreFailed, LogDamaged), and
        ValueError for a body that is not UTF-8; nothing has changed then.
        """
        if self._refusal is not None:
            raise copy.copy(self._refusal)
        taken = tuple(entries)
        size = 0
        for entry in taken:
            body = entry.body
            if not body.isascii():
                check_body(entry.kind, body)
            size += len(body)
        depth = self._position - self._durability.position + len(taken)
        if depth > self._max_entries or self._pending_bytes + size > self._max_bytes:
            self._check_room(depth, size, must_take)
        first = self._position + 1
        if taken:
            self._position += len(taken)
            self._pending_bytes += size
            self._put((first, taken, size))
            if self._inline is not None:
                self._inline.wake()
            elif not must_take or self._backlog.asleep:
                self._bell.due = True
        return first

    def _check_room(self, depth: int, size: int, must_take: bool) -> None:
        extra = self._reserve_entries if must_take else 0
        max_entries = self._max_entries + extra
        max_bytes = self._max_bytes + extra * RESERVE_BYTES_PER_ENTRY
        if depth > max_entries or self._pending_bytes + size > max_bytes:
            raise JournalFull(self.depth, self._pending_bytes, max_entries, max_bytes)

    def is_durable(self, version: int) -> bool:
        """Whether everything up to ``version`` is committed."""
        return version <= self._durability.position

    async def durable(self, version: int) -> None:
        """Return when all up to ``version`` is committed; at once, without a checkpoint, if it is.

        Raises what ended the journal if it is dead, ValueError for a version never offered.
        """
        if version <= self._durability.position:
            return
        if version > self._position:
            raise ValueError(
                f"version {version} of {self._stream!r} was never offered: the last is"
                f" {self._position}"
            )
        while version > self._durability.position:
            if self._dead is not None:
                raise copy.copy(self._dead)
            self._bell.due = True
            await self._durability.reached(version)

    def close(self) -> None:
        """Take no more offers; ``run`` commits what was taken and returns. May be called again."""
        if self._refusal is None:
            self._refusal = StoreClosed(f"the journal of {self._stream!r}")
            self._backlog.put(None)
            self._backlog.ring()
        self._stopping.set()
        if self._inline is not None:
            self._inline.wake()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Commit what is offered until ``close`` or cancellation, then flush and return.

        Start it with ``nursery.start``. Raises what ended the journal: VersionConflict, LogDamaged,
        StoreClosed; EntriesLost if the flush made no progress for ``flush_s``; and what
        ``on_commit`` raised.
        """
        if self._started:
            raise RuntimeError(f"the journal of {self._stream!r} was already run")
        self._started = True
        thread = self._start_writer()
        task_status.started()
        try:
            if self._inline is not None:
                await self._inline.pump(self._stopping)
            await self._stopping.wait()
        finally:
            if thread is not None:
                trio.lowlevel.remove_instrument(self._bell)
            self.close()
            with trio.CancelScope(shield=True) as self._flushing:
                self._extend_flush()
                self._durability.watch()
                if self._inline is not None:
                    await self._inline.pump(self._ended)
                await self._ended.wait()
            if not self._ended.is_set():
                await self._give_up(thread)
            if self._dead is not None:
                raise copy.copy(self._dead) from self._dead.__cause__
            if self._callback_error is not None:
                raise self._callback_error

    def _start_writer(self) -> WriterThread | None:
        report = self._durability.report(failed=self._fail, ended=self._end)
        if not self._threaded:
            self._inline = InlineWriter(self._store, self._stream, self._backlog, report)
            return None
        token = trio.lowlevel.current_trio_token()

        def post(function: Callable[..., object], *arguments: object) -> bool:
            try:
                token.run_sync_soon(function, *arguments)
            except trio.RunFinishedError:
                return False
            return True

        thread = WriterThread(self._store, self._stream, self._backlog, report, post)
        thread.start()
        trio.lowlevel.add_instrument(self._bell)
        return thread

    async def _give_up(self, thread: WriterThread | None) -> None:
        if thread is not None:
            thread.give_up()
            with trio.move_on_after(STUCK_THREAD_S, shield=True):
                await self._ended.wait()
        if not self.depth:
            return
        kinds = self._backlog.kinds_after(self._durability.position)
        why = str(self._failing or "the store did not answer")
        self._end(EntriesLost(f"the journal of {self._stream!r}", kinds, why))

    def _extend_flush(self) -> None:
        if self._flushing is not None:
            self._flushing.deadline = trio.current_time() + self.flush_s

    def _on_batch(self, batch: Batch, seconds: float) -> None:
        self._pending_bytes -= batch.size
        self._commits += 1
        self._failing = self._stalled_since_ms = None
        self._extend_flush()
        if self._on_commit is not None:
            try:
                self._on_commit(len(batch.entries), seconds)
            except Exception as exc:  # run() raises it; raised here it would end Trio itself
                self._callback_error, self._on_commit = exc, None
                self.close()

    def _fail(self, error: StoreFailed) -> None:
        self._failing = error
        if self._stalled_since_ms is None:
            self._stalled_since_ms = self._clock_ms()

    def _end(self, error: Exception | None) -> None:
        if error is not None:
            if not isinstance(error, LogError):
                cause = error
                error = StoreFailed(f"the journal of {self._stream!r}", f"broken: {cause!r}")
                error.__cause__ = cause
            self._dead = self._refusal = error
        self._stopping.set()
        self._ended.set()
        self._durability.look()
        self._durability.release()
