"""Retention in a running router: whole closed segments are unlinked when their time is over."""

import logging
import math
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import trio

from eventlog.retention import Plan, Retention
from eventlog.segments import list_segments
from eventlog.snapshots import Snapshots
from trioroute.archived import marks
from trioroute.retain import plan_retention, retire
from trioroute.upkeep.deeds import Deeds

logger = logging.getLogger("trioroute.log")

MEBIBYTE = 1 << 20

LOOK_EVERY_S = 5.0
"""How often file names are listed: a segment, snapshot or mark that is new is acted on then."""

AT_LEAST_EVERY_S = 60.0
"""How often segments are judged although no name is new: time passes, the open one grows."""

CLOCK_SETTLES_S = 600.0
"""Nothing goes for its age until the router ran so long, or for ``retain_age`` if that is shorter:
a machine that boots with a wrong date is set right meanwhile, and by then the earlier of the run's
and the wall's clock counts."""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


@attrs.define
class Retaining:
    """``limits`` gives the limits in force, ``archives`` whether segments must be archived first;
    both may change while it runs. ``told`` is what was said of a segment that is kept back."""

    directory: Path
    limits: Callable[[], Retention]
    archives: Callable[[], bool]
    now_ms: Callable[[], int]
    deeds: Deeds = attrs.field(factory=Deeds)
    look_every_s: float = LOOK_EVERY_S
    at_least_every_s: float = AT_LEAST_EVERY_S
    wall_ms: Callable[[], int] = _wall_ms
    clock_settles_s: float = CLOCK_SETTLES_S
    told: str = ""

    async def run(self) -> None:
        """Retire for ever, in a worker thread. Raises LogError and OSError: see ``keep_up``."""
        began_s = trio.current_time()
        judged: object = None
        judged_s = -math.inf
        while True:
            limits, archived_only = self.limits(), self.archives()
            if trio.current_time() - began_s < min(self.clock_settles_s, limits.age_ms / 1000):
                limits = attrs.evolve(limits, age_ms=0)
            if limits != Retention():
                found = await trio.to_thread.run_sync(_names, self.directory)
                seen, now_s = (limits, archived_only, found), trio.current_time()
                if seen != judged or now_s - judged_s >= self.at_least_every_s:
                    judged, judged_s = seen, now_s
                    await trio.to_thread.run_sync(self._judge, limits, archived_only)
            await trio.sleep(self.look_every_s)

    def _judge(self, limits: Retention, archived_only: bool) -> None:
        now_ms = self.now_ms()
        earlier_ms = min(now_ms, self.wall_ms())
        decided = plan_retention(self.directory, limits, earlier_ms, archived_only=archived_only)
        retire(self.directory, decided)
        self.deeds.waiting = len(decided.kept_back)
        self.deeds.succeeded(now_ms, sum(segment.size_bytes for segment in decided.going))
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


def _names(directory: Path) -> object:
    """What decides by its mere presence whether a segment may go."""
    segments = tuple(file.first for file in list_segments(directory))
    return segments, tuple(Snapshots(directory).seqs()), marks(directory)
