"""What keeps the tasks of upkeep going: none of them may end the router."""

import logging
from collections.abc import Awaitable, Callable

import trio

from eventlog.errors import LogError
from trioroute.upkeep.deeds import Deeds

logger = logging.getLogger("trioroute.log")

AGAIN_S = 10.0
FORGOTTEN_S = 60.0
"""A task that ran this long had recovered: its next failure is told even for the same reason."""


async def keep_up(
    what: str,
    task: Callable[[], Awaitable[None]],
    deeds: Deeds | None = None,
    again_s: float = AGAIN_S,
) -> None:
    """Run ``task`` for ever. A disk or a system that fails it is told once for each change of
    reason, and counted in ``deeds``; it is begun again ``again_s`` later."""
    told = ""
    while True:
        begun_s = trio.current_time()
        try:
            await task()
        except (OSError, LogError) as error:
            if trio.current_time() - begun_s > FORGOTTEN_S:
                told = ""
            if str(error) != told:
                logger.error("%s failed, tried again later: %s", what, error)
            told = str(error)
            if deeds is not None:
                deeds.failed += 1
        await trio.sleep(again_s)
