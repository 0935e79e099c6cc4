"""How many requests may be tried again: at most a share of all, so that retries cannot storm."""

from collections import deque

WINDOW_MS = 10_000
ALWAYS_ALLOWED = 3
"""SETTINGS.md: a 10 s window, at least 3 allowed."""


class RetryBudget:
    """Counts requests and retries of the last ten seconds, second by second."""

    def __init__(self) -> None:
        self._slots: deque[list[int]] = deque()

    def request(self, at_ms: int) -> None:
        self._slot(at_ms)[1] += 1

    def try_again(self, at_ms: int, budget_m: int) -> bool:
        """Take one retry out of the budget of ``budget_m`` thousandths; False when it is spent."""
        slot = self._slot(at_ms)
        requests = sum(slot[1] for slot in self._slots)
        retries = sum(slot[2] for slot in self._slots)
        if retries >= max(ALWAYS_ALLOWED, requests * budget_m // 1000):
            return False
        slot[2] += 1
        return True

    def _slot(self, at_ms: int) -> list[int]:
        second = at_ms // 1000
        while self._slots and self._slots[0][0] <= second - WINDOW_MS // 1000:
            self._slots.popleft()
        if not self._slots or self._slots[-1][0] != second:
            self._slots.append([second, 0, 0])
        return self._slots[-1]
