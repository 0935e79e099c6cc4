"""Virtual time: a heap of (time, order); what is due at once runs in the order it was set."""

import heapq
from collections.abc import Callable

MS_NS = 1_000_000
BEGIN_MS = 1_700_000_000_000
"""The wall time at which every simulation begins, so that its log has plausible times."""

Call = Callable[[], None]


class Clock:
    """Runs calls in order of time; nothing happens between two of them."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._heap: list[tuple[int, int, Call]] = []
        self._order = 0

    @property
    def at_ms(self) -> int:
        """Now, as commands tell it."""
        return BEGIN_MS + self.now_ns // MS_NS

    def at(self, when_ns: int, call: Call) -> None:
        """Call at ``when_ns``, which must not be past."""
        self._order += 1
        heapq.heappush(self._heap, (when_ns, self._order, call))

    def after(self, delay_ms: int, call: Call) -> None:
        self.at(self.now_ns + delay_ms * MS_NS, call)

    def step(self, until_ns: int | None = None) -> bool:
        """Run the next call; False when there is none, or none up to ``until_ns``."""
        if not self._heap or (until_ns is not None and self._heap[0][0] > until_ns):
            return False
        self.now_ns, _, call = heapq.heappop(self._heap)
        call()
        return True
