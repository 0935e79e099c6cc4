"""Snapshots of a running router's log.

They are made by a process of its own (``trioroute log snapshot``): folding and packing a large
state would hold the interpreter's lock, and with it every request, for longer than a request may
wait. A thread lost for that reason.
"""

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import trio

from eventlog.segments import list_segments
from eventlog.snapshots import Snapshots
from trioroute.upkeep.command import run_command
from trioroute.upkeep.deeds import Deeds

logger = logging.getLogger("trioroute.log")

LOOK_EVERY_S = 5.0
SNAPSHOT_EVENTS = 20_000
"""A restart folds about this many events at most, in some tenths of a second."""

SNAPSHOT_PAUSE_S = 30.0
"""From the end of one snapshot to the beginning of the next."""

SNAPSHOT_LIMIT_S = 1800.0
POLITE = "import os; os.nice(10); from trioroute.cli import main; main(prog_name='trioroute')"
"""The command line at a low priority; the program ``nice`` is not on every machine."""


@attrs.define
class Snapshotting:
    """``position`` gives the version of the last durable event; ``snapshot_at`` is the version that
    the newest snapshot covers. ``hopeless`` are segments whose snapshot could not be made."""

    directory: Path
    position: Callable[[], int]
    snapshot_at: int
    now_ms: Callable[[], int]
    deeds: Deeds = attrs.field(factory=Deeds)
    hopeless: frozenset[int] = frozenset()
    command: tuple[str, ...] = (sys.executable, "-c", POLITE)
    look_every_s: float = LOOK_EVERY_S
    pause_s: float = SNAPSHOT_PAUSE_S
    snapshot_events: int = SNAPSHOT_EVENTS

    async def run(self) -> None:
        """Make snapshots for ever, as they are due."""
        while True:
            if await self._snapshot_is_due():
                await self._snapshot()
                await trio.sleep(self.pause_s)
            await trio.sleep(self.look_every_s)

    async def _snapshot_is_due(self) -> bool:
        if self.position() - self.snapshot_at >= self.snapshot_events:
            return True
        lacking = await trio.to_thread.run_sync(borders_lacking, self.directory)
        return bool(lacking - self.hopeless)

    async def _snapshot(self) -> None:
        covered = self.position()
        words = [*self.command, "log", "snapshot", str(self.directory), "--json"]
        ran = await run_command(words, SNAPSHOT_LIMIT_S)
        if ran.failure:
            self.deeds.failed += 1
            logger.error("no snapshot of the log was made: %s", ran.failure)
            return
        self.snapshot_at = covered
        self.deeds.succeeded(self.now_ms())
        self.hopeless = await trio.to_thread.run_sync(borders_lacking, self.directory)
        if ran.told:
            logger.warning("snapshot of the log: %s", ran.told)


def borders_lacking(directory: Path) -> frozenset[int]:
    """The segments, by first row, that have no snapshot at their beginning but need one."""
    have = Snapshots(directory).seqs()
    firsts = [file.first for file in list_segments(directory)]
    return frozenset(first for first in firsts if first > 1 and first - 1 not in have)
