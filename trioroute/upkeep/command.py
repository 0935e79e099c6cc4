"""A program beside the router: bounded in time and in what is kept of its words."""

import os
import signal
import subprocess
from collections.abc import Callable, Sequence

import attrs
import trio

MESSAGE_BYTES = 500
"""What is kept of standard error: its end. Neither memory nor a disk holds more."""

LAST_WORDS_S = 1.0
GRACE_S = 2.0
LOOK_EVERY_S = 0.05


@attrs.frozen
class Ran:
    """``failure`` says why it failed, empty if it did not; ``told`` is the end of its stderr."""

    failure: str
    told: str = ""


async def run_command(words: Sequence[str], limit_s: float, inherits: Sequence[int] = ()) -> Ran:
    """Run it without a shell and with nothing to read, in a process group of its own; of our open
    files it gets those that it ``inherits``.

    It is over when the program itself is, even if a child of it holds stderr open; what is left of
    the group is ended then. A temporary file for stderr lost: it could fill the disk.
    """
    try:
        process = await trio.lowlevel.open_process(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=inherits,
        )
    except (OSError, ValueError) as error:
        return Ran(str(error))
    end = _End()
    try:
        with trio.move_on_after(limit_s) as limit:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(end.follow, process)
                await process.wait()
                nursery.cancel_scope.deadline = trio.current_time() + LAST_WORDS_S
    finally:
        with trio.CancelScope(shield=True):
            await _end_all(process)
    told = end.kept.decode(errors="replace").strip()
    if process.returncode is None or limit.cancelled_caught:
        return Ran(f"it took longer than {limit_s:g} s and was ended", told)
    return Ran(f"exit code {process.returncode}: {told}" if process.returncode else "", told)


@attrs.define
class _End:
    """The end of what a program says."""

    kept: bytes = b""

    async def follow(self, process: trio.Process) -> None:
        assert process.stderr is not None
        async with process.stderr as stream:
            async for chunk in stream:
                self.kept = (self.kept + chunk)[-MESSAGE_BYTES:]


async def _end_all(process: trio.Process) -> None:
    """End what is left of the group, also when the program itself is gone already."""
    await end_group(process.pid, process.poll)
    with trio.move_on_after(GRACE_S):
        await process.wait()


async def end_group(group: int, reap: Callable[[], object] = lambda: None) -> None:
    """End a process group: asked first, killed after ``GRACE_S``. ``reap`` a child of ours in it,
    which would be taken for alive."""
    try:
        os.killpg(group, signal.SIGTERM)
        with trio.move_on_after(GRACE_S):
            while True:
                reap()
                os.killpg(group, 0)
                await trio.sleep(LOOK_EVERY_S)
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # none is left, or none that is ours
        pass
