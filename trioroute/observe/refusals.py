"""Refusals of this process: how many by code and key, and a line of the process log for them.

Counted where they are answered, not in the log: a log that stalls takes no ``Refused``, and of
strangers only ten a second (HTTP.md).
"""

import logging
import math
import time
from collections.abc import Callable

import attrs
import trio

logger = logging.getLogger("trioroute")

OF_KEYS = frozenset({"rate_limited", "overloaded"})
"""Codes that are told by key: whose limit it was, and whose requests found the line full."""

FAILED = frozenset({"upstream_failed", "upstream_auth", "first_byte_timeout"})
"""Codes of requests that were taken and failed at a replica: what replay counts as failed. The
counter, whose name is older, has all codes."""

KEYS_SHOWN = 100
OTHER = "_other"
"""Further keys together. No name of a key begins with such a sign."""

FROM_ZERO = (
    "invalid_api_key",
    "rate_limited",
    "overloaded",
    "no_healthy_instances",
    "log_stalled",
    "upstream_failed",
)
"""Codes that are there from the start: ``increase()`` does not see a series that begins at 1."""


LINES_EVERY_S = 1.0


@attrs.define(slots=True)
class Refusals:
    """``counts`` by code and key. At most one line of the process log a second."""

    clock_s: Callable[[], float] = time.monotonic
    counts: dict[tuple[str, str], int] = attrs.field(
        factory=lambda: {(code, ""): 0 for code in FROM_ZERO}
    )
    _names: set[str] = attrs.field(factory=set)
    _told_s: float = -math.inf
    _since: str = ""
    _untold: dict[str, int] = attrs.field(factory=dict)

    def note(self, code: str, key: str | None = None) -> None:
        """Count one. Plain and quick; ``key`` is the name of the key it came with."""
        label = self._label(key) if key and code in OF_KEYS else ""
        self.counts[code, label] = self.counts.get((code, label), 0) + 1
        if not self._untold:
            self._since = time.strftime("%H:%M:%S")
        self._untold[code] = self._untold.get(code, 0) + 1
        self.tell(pause_s=LINES_EVERY_S)

    def tell(self, pause_s: float = 0) -> None:
        """A line of those not told yet, unless the last one is younger than ``pause_s``.

        With the time of the first where they are several: it may be a second ago.
        """
        now_s = self.clock_s()
        if not self._untold or now_s - self._told_s < pause_s:
            return
        told = "; ".join(
            f"{word}: {', '.join(found)}"
            for word, failed in (("refused", False), ("failed", True))
            if (found := self._told(failed=failed))
        )
        several = sum(self._untold.values()) > 1
        logger.warning("%s%s", told, f" (since {self._since})" if several else "")
        self._told_s = now_s
        self._untold.clear()

    def _told(self, *, failed: bool) -> list[str]:
        untold = self._untold.items()
        return [f"{count} {code}" for code, count in untold if (code in FAILED) is failed]

    def _label(self, key: str) -> str:
        if key not in self._names:
            if len(self._names) >= KEYS_SHOWN:
                return OTHER
            self._names.add(key)
        return key


async def tell_refusals(refusals: Refusals) -> None:
    """Leave no refusal untold for longer, also when no other follows it. Runs until cancelled."""
    try:
        while True:
            await trio.sleep(LINES_EVERY_S)
            refusals.tell(pause_s=LINES_EVERY_S)
    finally:
        refusals.tell()
