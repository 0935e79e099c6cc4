"""A start that takes long is told while it lasts: to who reads the process log, and to the service
manager, which would take it for hung and kill it, and begin it again and again."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from trioroute.counted import plural
from trioroute.snapshot import LONG_ROWS
from trioroute.supervisor import tell_supervisor

logger = logging.getLogger("trioroute")

TELL_EVERY_S = 5.0
PATIENCE_S = 60
"""How long the service manager is asked to wait from each word on; each page of rows is within."""


@attrs.define
class SlowStart:
    """Told how far the fold is, as ``recover`` tells it."""

    log: Path
    now_s: Callable[[], float] = time.monotonic
    begun: int | None = None
    begun_s: float = 0.0
    told_s: float = 0.0

    def __call__(self, done: int, until: int) -> None:
        now_s = self.now_s()
        if self.begun is None:
            self.begun, self.begun_s, self.told_s = done, now_s, now_s
            if until - done >= LONG_ROWS:
                self._begin(until - done)
        elif now_s - self.told_s >= TELL_EVERY_S and done < until:
            self.told_s = now_s
            self._go_on(self.begun, done, until, now_s - self.begun_s)

    def _begin(self, rows: int) -> None:
        logger.warning(
            "no snapshot of this release lies near the end of %s: the router serves once it has "
            "folded %s, and makes new snapshots then. `trioroute log snapshot %s` of this "
            "release, run before a restart, spares that",
            self.log,
            plural(rows, "event"),
            self.log,
        )
        self._ask_for_patience(0)

    def _go_on(self, begun: int, done: int, until: int, gone_s: float) -> None:
        rows, share = until - begun, (done - begun) * 100 // (until - begun)
        left_s = round(gone_s * (until - done) / (done - begun)) if done > begun else 0
        logger.info(
            "folding the log: %d of %s (%d %%), about %d s to go",
            done - begun,
            plural(rows, "event"),
            share,
            left_s,
        )
        self._ask_for_patience(share)

    def _ask_for_patience(self, share: int) -> None:
        tell_supervisor(
            f"EXTEND_TIMEOUT_USEC={PATIENCE_S * 1_000_000}", f"STATUS=folding the log, {share} %"
        )
