"""The archive command: run once for each closed segment, oldest first, until it succeeds."""

import logging
import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import attrs
import trio

from trioroute.archived import mark_archived, unarchived

logger = logging.getLogger("trioroute.log")

PLACE = "{segment}"
LIMIT_S = 3600.0
"""A command that takes longer is ended and tried again."""

FIRST_RETRY_S = 10.0
LONGEST_RETRY_S = 600.0
MESSAGE_CHARS = 500


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
    look_every_s: float = 5.0
    limit_s: float = LIMIT_S
    pause_s: float = FIRST_RETRY_S

    async def run(self) -> None:
        """Archive for ever; a command that fails is repeated after 10 s, then twice as long."""
        pause_s = self.pause_s
        while True:
            command = self.command()
            waiting = await trio.to_thread.run_sync(unarchived, self.directory) if command else []
            if not waiting:
                await trio.sleep(self.look_every_s)
            elif await self._archive(command, waiting[0]):
                pause_s = self.pause_s
            else:
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_RETRY_S)

    async def _archive(self, command: str, segment: Path) -> bool:
        failure = await run_command(words_of(command, segment), self.limit_s)
        if failure:
            logger.error("log.archive failed for %s, tried again later: %s", segment, failure)
            return False
        await trio.to_thread.run_sync(mark_archived, segment)
        logger.info("log.archive: %s is archived", segment)
        return True


async def run_command(words: list[str], limit_s: float) -> str:
    """Run it without a shell and with nothing to read; why it failed, empty if it did not."""
    try:
        with trio.move_on_after(limit_s) as limit:
            done = await trio.run_process(
                words,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                capture_stderr=True,
                start_new_session=True,
                deliver_cancel=_end_all,
            )
        if limit.cancelled_caught:
            return f"it took longer than {limit_s:g} s and was ended"
    except (OSError, ValueError) as error:
        return str(error)
    told = done.stderr.decode(errors="replace").strip()[-MESSAGE_CHARS:]
    return f"exit code {done.returncode}: {told}" if done.returncode else ""


async def _end_all(process: trio.Process) -> None:
    """End the command and what it started; its group is its own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        with trio.move_on_after(2):
            await process.wait()
            return
