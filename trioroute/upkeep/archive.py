"""The archive command: run once for each closed segment, oldest first, until it succeeds."""

import logging
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import attrs
import trio

from trioroute.archived import mark_archived, unarchived
from trioroute.counted import plural
from trioroute.upkeep.command import Ran, run_command
from trioroute.upkeep.deeds import Deeds
from trioroute.upkeep.only_one import only_one

logger = logging.getLogger("trioroute.log")

PLACE = "{segment}"
LIMIT_S = 3600.0
"""A command that takes longer is ended and tried again."""

TELL_AFTER_S, TELL_EVERY_S = 60.0, 600.0
"""A command that runs this long is told, and again each time so much later."""

LOCK_NAME = "archive.lock"
"""Held by the command that runs, beside the log."""

FIRST_RETRY_S = 10.0
LONGEST_RETRY_S = 600.0


def words_of(command: str, segment: Path) -> list[str]:
    """The command as a list of words: no shell ever sees it, whatever the path holds.

    Raises ValueError for quotes that do not close.
    """
    return [word.replace(PLACE, str(segment)) for word in shlex.split(command)]


@attrs.define
class Archiving:
    """``command`` gives the command in force, empty for none; one that runs when it changes is
    ended."""

    directory: Path
    command: Callable[[], str]
    now_ms: Callable[[], int]
    deeds: Deeds = attrs.field(factory=Deeds)
    look_every_s: float = 5.0
    limit_s: float = LIMIT_S
    pause_s: float = FIRST_RETRY_S
    tell_after_s: float = TELL_AFTER_S

    async def run(self) -> None:
        """Archive for ever; a command that fails is repeated after 10 s, then twice as long.

        Raises OSError: see ``keep_up``.
        """
        lock = self.directory / LOCK_NAME
        if lock.exists():
            async with only_one(lock):
                pass  # what a killed router left running is ended, whatever the settings are now
        pause_s = self.pause_s
        while True:
            command = self.command()
            waiting = await trio.to_thread.run_sync(unarchived, self.directory) if command else []
            self.deeds.waiting = len(waiting)
            if not waiting:
                await trio.sleep(self.look_every_s)
                continue
            async with only_one(lock) as descriptor:
                worked = await self._archive(command, waiting[0], descriptor)
            if worked:
                pause_s = self.pause_s
                continue
            with trio.move_on_after(pause_s) as pause:
                await self._changed(command)
            pause_s = min(2 * pause_s, LONGEST_RETRY_S) if pause.cancelled_caught else self.pause_s

    async def _archive(self, command: str, segment: Path, descriptor: int) -> bool:
        """False if it failed, and is to be tried again later."""
        ran = await self._run(command, segment, descriptor)
        if ran is None:
            logger.warning("log.archive was changed: its command for %s was ended", segment)
            return True
        failure = ran.failure
        size, failed = (0, failure) if failure else await trio.to_thread.run_sync(_mark, segment)
        if failed:
            self.deeds.failed += 1
            logger.error("log.archive failed for %s, tried again later: %s", segment, failed)
            return False
        self.deeds.succeeded(self.now_ms(), size)
        logger.info("log.archive: %s is archived", segment)
        return True

    async def _run(self, command: str, segment: Path, descriptor: int) -> Ran | None:
        """None if it was ended because another command is in force."""
        ran: list[Ran] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_when_changed, command, segment, nursery.cancel_scope)
            words = words_of(command, segment)
            ran.append(await run_command(words, self.limit_s, (descriptor,)))
            nursery.cancel_scope.cancel()
        return ran[0] if ran else None

    async def _end_when_changed(
        self, command: str, segment: Path, running: trio.CancelScope
    ) -> None:
        await self._changed(command, segment)
        running.cancel()

    async def _changed(self, command: str, segment: Path | None = None) -> None:
        """Wait until another command is in force. Meanwhile what waits is counted, and that the one
        for ``segment`` still runs is told."""
        began_s = trio.current_time()
        tell_s = began_s + self.tell_after_s
        while self.command() == command:
            await trio.sleep(self.look_every_s)
            with suppress(OSError):  # told by the next attempt
                waiting = await trio.to_thread.run_sync(unarchived, self.directory)
                self.deeds.waiting = len(waiting)
            if segment is not None and trio.current_time() >= tell_s:
                tell_s = trio.current_time() + TELL_EVERY_S
                logger.warning(
                    "log.archive has run for %d s for %s, and %s: it is ended after %d s, or when "
                    "the setting is changed and reloaded",
                    trio.current_time() - began_s,
                    segment,
                    f"{plural(self.deeds.waiting, 'closed segment')} in all not archived yet",
                    self.limit_s,
                )


def _mark(segment: Path) -> tuple[int, str]:
    """Mark it as archived: its size, or why it cannot be marked, as on a full disk."""
    try:
        mark_archived(segment)
        return segment.stat().st_size, ""
    except OSError as error:
        return 0, f"it cannot be marked as archived: {error}"
