"""Whether a process that a test started, or one that it started, is gone."""

import os
from pathlib import Path

import trio


async def is_ended(pid: int) -> None:
    with trio.fail_after(40):
        while is_alive(pid):  # noqa: ASYNC110  # its parent is init now
            await trio.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
