"""One command at a time, also when the router that started the last one was killed.

The command inherits a lock (flock on an open file) from the router. The kernel drops it when the
last process that has it is gone, so a lock that is held when a router starts is held by what a
killed one left running. ``PR_SET_PDEATHSIG`` lost: it fires when the thread that started the
command ends, and its children do not have it.
"""

import fcntl
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import trio

from trioroute.upkeep.command import end_group

logger = logging.getLogger("trioroute.log")

AGAIN_S = 5.0


@asynccontextmanager
async def only_one(lock: Path) -> AsyncIterator[int]:
    """Hold ``lock``; gives its descriptor, for the command to inherit. What a killed router left
    running is ended first, with its process group. Raises OSError."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _taken(descriptor):
            await _end_left(lock)
            if not _taken(descriptor):
                await trio.sleep(AGAIN_S)
        yield descriptor
    finally:
        # A daemon that the command started in a session of its own has the file open for ever.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _end_left(lock: Path) -> None:
    groups = await trio.to_thread.run_sync(_groups_with, lock)
    for group in groups:
        logger.warning(
            "process group %d is a command that a router which was killed left running: it is "
            "ended, and its segment begun again",
            group,
        )
        await end_group(group)
    if not groups:
        logger.error(
            "a command that a router which was killed left running holds %s, and cannot be found: "
            "end it (`fuser -v %s`); no other is run until then",
            lock,
            lock,
        )


def _groups_with(lock: Path) -> list[int]:
    """The process groups in which a process has it open, without our own (proc(5))."""
    path = str(lock.resolve())
    found: set[int] = set()
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):  # noqa: PTH208
        with suppress(OSError):  # it ended, or is another user's
            files = f"/proc/{pid}/fd"
            for name in os.listdir(files):  # noqa: PTH208  # names only
                with suppress(OSError):
                    if os.readlink(f"{files}/{name}") == path:  # noqa: PTH115  # no Path each
                        found.add(os.getpgid(pid))
    return sorted(found - {os.getpgrp()})
