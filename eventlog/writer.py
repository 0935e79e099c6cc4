"""The writing side of a journal: offers gathered into batches, and the thread that commits them.

No Trio here: the thread speaks to the loop through one ``post`` function.
"""

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable

import attrs

from eventlog.errors import StoreFailed
from eventlog.record import Entry
from eventlog.store import Store

FIRST_RETRY_S = 0.01
LONGEST_RETRY_S = 1.0
"""A failed commit is repeated after 10 ms, then twice as long each time, at most a second."""

LOOP_CHECK_S = 5.0
"""How often an idle writer looks whether its loop still exists."""

TRIES_WITHOUT_LOOP = 5

COMMIT_EVERY_S, AWAITED_EVERY_S = 0.003, 0.001
"""A commit begins at least this long after the one before, the shorter time if somebody waits.

The first after a quiet time goes at once, so a lone request never waits; under load offers gather
into fewer commits, for each one takes the interpreter's lock from the loop several times. A router
under load (2 KB, 32 connections) needs 0.79 of the CPU with the 3 ms; the median wait at 1,000
requests/s that are answered at once is 1.1 ms with the 1 ms, 2.9 ms without (tests/bench_gate.py).
"""

COMPANY_S = 0.02
"""An offer that nobody is in a hurry for waits at most this long for others to be committed with.
The end of a request is one. At 64 requests a second a router needs 0.65 to 0.9 of the CPU with this
and with a loop that is not woken for commits (durability.py); a commit takes 0.6 ms of it.
"""

Post = Callable[..., bool]
"""Run a function in the loop's thread soon; false if the loop is gone."""


Offer = tuple[int, tuple[Entry, ...], int]
"""Entries offered together and committed together: first version, entries, bytes of bodies.

A plain tuple: building an attrs object here would double the cost of an offer.
"""


@attrs.frozen
class Batch:
    """What one append stores: whole offers in order, from version ``first`` on.

    A batch that failed is repeated as it is: only then the store can tell that it is already there
    (clause E2).
    """

    first: int
    entries: list[Entry]
    size: int

    @property
    def last(self) -> int:
        """The version of the last entry."""
        return self.first + len(self.entries) - 1


@attrs.frozen
class Report:
    """What a writer tells its journal, in the loop's thread but for the first two."""

    committed: Callable[[Batch, float], None]
    """The batch is durable; its append took so many seconds. In the writer's own thread."""

    awaited: Callable[[], bool]
    """Whether somebody waits for a commit, so that the loop is to be told at once, by ``look``."""

    look: Callable[[], None]
    """Something was committed."""

    failed: Callable[[StoreFailed], None]
    """An append failed and will be repeated."""

    ended: Callable[[Exception | None], None]
    """The writer has stopped: all was written, or it cannot go on for this error."""


class Backlog:
    """Offers on their way to the writer, and its bell; bounded by the journal that fills it."""

    def __init__(self, batch_entries: int) -> None:
        self._offers: deque[Offer | None] = deque()
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._rung = False
        self._batch_entries = batch_entries
        self._end_seen = False
        self._taken: Batch | None = None
        self.asleep = False
        """The writer looks only after a long time, unless it is rung for."""
        self.put: Callable[[Offer | None], None] = self._offers.append
        """Add an offer; None says that no more will come."""

    def __bool__(self) -> bool:
        return bool(self._offers)

    @property
    def drained(self) -> bool:
        """Whether everything was taken and no more will come."""
        return self._end_seen

    def ring(self) -> None:
        """Make the writer look now."""
        if not self._rung:
            self._rung = True
            self._bell.put(None)

    def wait(self, wait_s: float) -> bool:
        """Whether it was rung within ``wait_s``. For the writer."""
        try:
            self._bell.get(timeout=wait_s)
        except queue.Empty:
            return False
        self._rung = False  # before looking: what is put from here on rings again
        return True

    def next_batch(self) -> Batch | None:
        """All that is there, up to the batch's bound; None if that is nothing."""
        offers = self._offers
        entries: list[Entry] = []
        first = size = 0
        while offers and len(entries) < self._batch_entries:
            offer = offers.popleft()
            if offer is None:
                self._end_seen = True
                break
            first = first or offer[0]
            entries += offer[1]
            size += offer[2]
        if not entries:
            return None
        self._taken = Batch(first, entries, size)
        return self._taken

    def kinds_after(self, version: int) -> dict[str, int]:
        """How many entries of each kind lie behind ``version``, the most first. For the end, when
        the writer takes no more."""
        counted = Counter[str]()
        if self._taken is not None and self._taken.last > version:
            counted.update(entry.kind for entry in self._taken.entries)
        for offer in tuple(self._offers):
            if offer is not None:
                counted.update(entry.kind for entry in offer[1])
        return dict(counted.most_common())


class WriterThread:
    """Commits a backlog in a thread of its own, append by append; a failure never stops it.

    One dedicated thread rather than ``trio.to_thread`` for each append: 14 µs of CPU a hand-over
    against 73 µs, and its place in the order is plain.
    """

    def __init__(
        self, store: Store, stream: str, backlog: Backlog, report: Report, post: Post
    ) -> None:
        self._store = store
        self._stream = stream
        self._backlog = backlog
        self._report = report
        self._post = post
        self._give_up = threading.Event()
        self._loop_gone = False
        # A daemon, because a thread stuck in a dead disk must not hold up the process's exit; the
        # journal waits for it in all other cases.
        self.thread = threading.Thread(target=self._main, name=f"log {stream}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self.thread.start()

    def give_up(self) -> None:
        """Do not repeat a failing append any more."""
        self._give_up.set()

    def _main(self) -> None:
        error: Exception | None = None
        try:
            self._write_all()
        except Exception as exc:
            error = exc
        self._tell(self._report.ended, error)

    def _write_all(self) -> None:
        backlog = self._backlog
        behind = False
        began_s = float("-inf")
        while True:
            if not behind:
                self._await_offers()
            if not backlog.drained:
                self._keep_distance(began_s)
            batch = backlog.next_batch()
            behind = batch is not None and bool(backlog)
            if batch is not None:
                began_s = time.perf_counter()
                self._commit(batch)
            elif backlog.drained or self._loop_gone:
                return

    def _keep_distance(self, began_s: float) -> None:
        """From the commit before. Not behind that one: where commits are rare, the thread wakes up
        for nothing then."""
        for every_s in (AWAITED_EVERY_S, COMMIT_EVERY_S):
            left_s = began_s + every_s - time.perf_counter()
            if left_s > 0:
                time.sleep(left_s)
            if self._report.awaited():
                return

    def _await_offers(self) -> None:
        """Until it is rung, or what nobody is in a hurry for had its time."""
        backlog = self._backlog
        if self._loop_gone or backlog.drained:
            return
        if backlog.wait(COMPANY_S):
            return
        backlog.asleep = True  # from here on everything rings
        if not backlog and not backlog.wait(LOOP_CHECK_S):
            self._tell(_nothing)
        backlog.asleep = False

    def _commit(self, batch: Batch) -> None:
        pause_s = FIRST_RETRY_S
        tries_left = TRIES_WITHOUT_LOOP
        failed = False
        while True:
            started = time.perf_counter()
            try:
                self._store.append(self._stream, batch.entries, batch.first - 1)
            except StoreFailed as exc:
                failed = True
                self._tell(self._report.failed, exc)
                tries_left -= self._loop_gone
                if self._give_up.wait(pause_s) or not tries_left:
                    raise
                pause_s = min(pause_s * 2, LONGEST_RETRY_S)
            else:
                self._report.committed(batch, time.perf_counter() - started)
                if failed or self._report.awaited():
                    self._tell(self._report.look)
                return

    def _tell(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._post(function, *arguments):
            self._loop_gone = True


def _nothing() -> None:
    """Posted only to learn whether the loop is there."""
