"""How far a stream is committed, as its loop knows it, and who waits for more."""

import heapq
from collections import deque
from collections.abc import Callable

import trio

from eventlog.errors import StoreFailed
from eventlog.writer import Batch, Report

OnBatch = Callable[[Batch, float], None]
"""Called in the loop for each committed batch, with the seconds its append took."""


class Durability:
    """Commits are noted by the writer's thread and taken note of in the loop when it looks next.

    The loop is woken for a commit only if somebody waits: a wake costs it 100 µs, and mostly the
    decision is in the log long before its answer comes. Nothing is missed between looking and
    waiting: the thread notes first and asks ``awaited`` then, the loop does it the other way round.
    """

    def __init__(self, position: int, on_batch: OnBatch) -> None:
        self._position = position
        self._on_batch = on_batch
        self._noted: deque[tuple[Batch, float]] = deque()
        self._events: dict[int, trio.Event] = {}
        self._order: list[int] = []
        self._always = False
        self.awaited = False
        """Whether the loop wants to be told of the next commit."""

    def report(
        self, *, failed: Callable[[StoreFailed], None], ended: Callable[[Exception | None], None]
    ) -> Report:
        """What a writer tells."""
        return Report(self.note, lambda: self.awaited, self.look, failed, ended)

    @property
    def position(self) -> int:
        """The version up to which everything is committed."""
        if self._noted:
            self.look()
        return self._position

    def note(self, batch: Batch, seconds: float) -> None:
        """The batch is durable. The only method for the writer's thread."""
        self._noted.append((batch, seconds))

    def look(self) -> None:
        """Take note of what was committed, and wake who waited for it."""
        while self._noted:
            batch, seconds = self._noted.popleft()
            self._position = batch.last
            while self._order and self._order[0] <= batch.last:
                self._events.pop(heapq.heappop(self._order)).set()
            self.awaited = self._always or bool(self._order)
            self._on_batch(batch, seconds)

    def watch(self) -> None:
        """Be told of every commit from now on."""
        self._always = self.awaited = True
        self.look()

    async def reached(self, version: int) -> None:
        """Return when ``version`` is committed, or ``release`` is called."""
        event = self._events.get(version)
        if event is None:
            event = self._events[version] = trio.Event()
            heapq.heappush(self._order, version)
        self.awaited = True
        self.look()
        await event.wait()

    def release(self) -> None:
        """Wake all that wait: nothing more will be committed."""
        self._order.clear()
        while self._events:
            self._events.popitem()[1].set()
