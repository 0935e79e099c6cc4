"""The demo's processes: each a real command, ended with the demo."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import trio

PR_SET_PDEATHSIG = 1
STOP_S = 10.0
LOOK_S = 0.05

Started = subprocess.Popen[bytes]
START_S = 30.0


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "trioroute", *arguments]


async def run_until_cancelled(
    arguments: Sequence[str],
    output: Path,
    *,
    task_status: trio.TaskStatus[Started] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a command in its own process group, so that Ctrl-C reaches the demo alone.

    Its output goes to a file of its own, anew. When cancelled it gets SIGTERM and time to end in
    order.
    """
    with output.open("wb") as sink:
        process = _begin(arguments, sink)
        task_status.started(process)
        try:
            await ended(process)
        finally:
            with trio.CancelScope(shield=True):
                await _stop(process)


def _begin(arguments: Sequence[str], sink: BinaryIO) -> Started:
    """Start a child from this thread.

    Trio's open_process starts it in a worker thread, and the kernel takes the end of that thread,
    ten idle seconds later, for the death of the parent.
    """
    return subprocess.Popen(
        list(arguments),
        stdin=subprocess.DEVNULL,
        stdout=sink,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_die_with_parent,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def _die_with_parent() -> None:
    """A demo that is killed leaves nothing running (prctl, Linux)."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


async def ended(process: Started) -> None:
    """Return when the process is over."""
    while process.poll() is None:  # noqa: ASYNC110  a child of subprocess has no event to wait for
        await trio.sleep(LOOK_S)


async def _stop(process: Started) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    with trio.move_on_after(STOP_S):
        await ended(process)
    if process.poll() is None:
        process.kill()
        await ended(process)


async def accepts(address: str, process: Started, output: Path) -> None:
    """Return when something listens there. Raises RuntimeError with the output if it ended."""
    host, _, port = address.rpartition(":")
    with trio.move_on_after(START_S):
        while process.poll() is None:
            try:
                stream = await trio.open_tcp_stream(host, int(port))
            except OSError:
                await trio.sleep(0.05)
                continue
            await stream.aclose()
            return
    read = partial(output.read_text, "utf-8", "replace")
    tail = (await trio.to_thread.run_sync(read)).splitlines()[-8:]
    raise RuntimeError("\n".join([f"nothing came up on {address}; {output} ends with:", *tail]))
