"""The archive command: run once for each closed segment, oldest first, until it succeeds."""

import logging
import shlex
from collections.abc import Callable
from pathlib import Path

import attrs
import trio

from trioroute.archived import mark_archived, unarchived
from trioroute.upkeep.command import run_command
from trioroute.upkeep.deeds import Deeds

logger = logging.getLogger("trioroute.log")

PLACE = "{segment}"
LIMIT_S = 3600.0
"""A command that takes longer is ended and tried again."""

FIRST_RETRY_S = 10.0
LONGEST_RETRY_S = 600.0


def words_of(command: str, segment: Path) -> list[str]:
    """The command as a list of words: no shell ever sees it, whatever the path holds.

    Raises ValueError for quotes that do not close.
    """
    return [word.replace(PLACE, str(segment)) for word in shlex.split(command)]


@attrs.define
class Archiving:
    """``command`` gives the command in force, empty for none."""

    directory: Path
    command: Callable[[], str]
    now_ms: Callable[[], int]
    deeds: Deeds = attrs.field(factory=Deeds)
    look_every_s: float = 5.0
    limit_s: float = LIMIT_S
    pause_s: float = FIRST_RETRY_S

    async def run(self) -> None:
        """Archive for ever; a command that fails is repeated after 10 s, then twice as long."""
        pause_s = self.pause_s
        while True:
            command = self.command()
            waiting = await trio.to_thread.run_sync(unarchived, self.directory) if command else []
            self.deeds.waiting = len(waiting)
            if not waiting:
                await trio.sleep(self.look_every_s)
            elif await self._archive(command, waiting[0]):
                pause_s = self.pause_s
            else:
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_RETRY_S)

    async def _archive(self, command: str, segment: Path) -> bool:
        failure = (await run_command(words_of(command, segment), self.limit_s)).failure
        size, failed = (0, failure) if failure else await trio.to_thread.run_sync(_mark, segment)
        if failed:
            self.deeds.failed += 1
            logger.error("log.archive failed for %s, tried again later: %s", segment, failed)
            return False
        self.deeds.succeeded(self.now_ms(), size)
        logger.info("log.archive: %s is archived", segment)
        return True


def _mark(segment: Path) -> tuple[int, str]:
    """Mark it as archived: its size, or why it cannot be marked, as on a full disk."""
    try:
        mark_archived(segment)
        return segment.stat().st_size, ""
    except OSError as error:
        return 0, f"it cannot be marked as archived: {error}"
