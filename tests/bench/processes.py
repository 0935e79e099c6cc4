"""Processes of the bench: started pinned, in a group of their own, and surely ended."""

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

FILES_WANTED = 65536
STOP_S = 5.0


def _prepare(cpu: int | None) -> Callable[[], None]:
    """Runs in the child before its program: one CPU, and as many open files as are allowed."""

    def prepare() -> None:
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, FILES_WANTED)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))

    return prepare


@contextmanager
def running(
    command: Sequence[str | Path],
    output: Path,
    cpu: int | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """The command with its output in a file, ended with its whole group at the end."""
    with output.open("ab") as sink:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=output.parent,
            env={**os.environ, **(env or {})},
            start_new_session=True,
            preexec_fn=_prepare(cpu),
        )
    try:
        yield process
    finally:
        stop(process)


@contextmanager
def piped(command: Sequence[str | Path], cpu: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """The command with its output to be read line by line."""
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_prepare(cpu),
    )
    try:
        yield process
    finally:
        stop(process)
        assert process.stdout is not None
        process.stdout.close()


def stop(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """SIGTERM to the group, SIGKILL to what is left of it after a while."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + STOP_S
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)


def last_lines(output: Path, count: int = 3) -> str:
    """The end of what a process said, in one line."""
    lines = output.read_text("utf-8", "replace").strip().splitlines()[-count:]
    return " / ".join(line.strip() for line in lines) or "it said nothing"
