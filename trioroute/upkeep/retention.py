"""Retention in a running router: whole closed segments are unlinked when their time is over."""

import logging
from collections.abc import Callable
from pathlib import Path

import attrs
import trio

from eventlog.retention import Plan, Retention
from trioroute.retain import plan_retention, retire

logger = logging.getLogger("trioroute.log")

MEBIBYTE = 1 << 20


@attrs.define
class Retaining:
    """``limits`` gives the limits in force, ``archives`` whether segments must be archived first;
    both may change while it runs. ``told`` is what was said of a segment that is kept back."""

    directory: Path
    limits: Callable[[], Retention]
    archives: Callable[[], bool]
    now_ms: Callable[[], int]
    look_every_s: float = 60.0
    told: str = ""

    async def run(self) -> None:
        """Retire for ever, in a worker thread. Raises LogError and OSError: see ``keep_up``."""
        while True:
            limits = self.limits()
            if limits != Retention():
                await trio.to_thread.run_sync(self._look, limits, self.archives(), self.now_ms())
            await trio.sleep(self.look_every_s)

    def _look(self, limits: Retention, archived_only: bool, now_ms: int) -> None:
        decided = plan_retention(self.directory, limits, now_ms, archived_only=archived_only)
        retire(self.directory, decided)
        self._tell(decided)

    def _tell(self, decided: Plan) -> None:
        for segment in decided.going:
            logger.info(
                "retired %s: events %d to %d, %d MiB",
                segment.file.path,
                segment.file.first,
                segment.last_seq,
                segment.size_bytes // MEBIBYTE,
            )
        told = ""
        for segment in decided.kept_back:
            told = f"{segment.file.path} should be retired but is kept: {decided.reason}"
        if told and told != self.told:
            logger.warning("%s", told)
        self.told = told
