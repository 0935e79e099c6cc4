"""The demo's processes: each a real command, ended with the demo."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio

PR_SET_PDEATHSIG = 1
STOP_S = 10.0
START_S = 30.0


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "trioroute", *arguments]


def free_address(wanted_port: int) -> str:
    """``127.0.0.1:port``: the wanted port if it is free, else any free one."""
    for port in (wanted_port, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return f"127.0.0.1:{probe.getsockname()[1]}"
    raise OSError("no free port on 127.0.0.1")


async def run_until_cancelled(
    arguments: Sequence[str],
    output: Path,
    *,
    task_status: trio.TaskStatus[trio.Process] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a command in its own process group, so that Ctrl-C reaches the demo alone.

    Its output goes to a file. When cancelled it gets SIGTERM and time to end in order.
    """
    with output.open("ab") as sink:
        process = await trio.lowlevel.open_process(
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        task_status.started(process)
        try:
            await process.wait()
        finally:
            with trio.CancelScope(shield=True):
                await _stop(process)


def _die_with_parent() -> None:
    """A demo that is killed leaves nothing running (prctl, Linux)."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


async def _stop(process: trio.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    with trio.move_on_after(STOP_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()


async def accepts(address: str, process: trio.Process, output: Path) -> None:
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
