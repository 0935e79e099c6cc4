"""Standard error of the router, written by a thread of its own: the process log never stops it.

A pipe that nobody reads takes 64 KiB and then holds whoever writes to it, and so does a terminal
that was paused. Written on the event loop, that would be every request, and the end too.
"""

import atexit
import io
import os
import select
import sys
import threading
import time
from collections import deque

from trioroute.counted import plural
from trioroute.whole_lines import WholeLines

PENDING_BYTES = 1 << 20
"""Kept while nobody takes them; whole lines beyond it are dropped and counted."""

LAST_WORDS_S = 0.5
"""How long the end of the process waits for a reader."""

READ_AGAIN_S = 1.0
"""How often a descriptor that does not block is asked for room, if it does not say itself."""


class Outlet(io.TextIOBase):
    """A text stream whose ``write`` never waits. Lines keep their order and are written whole.

    A line in which N dropped lines are told stands where they would have stood. Lines that the
    descriptor refuses, as one whose reader is gone or that lies on a full disk, count as dropped.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, descriptor: int, pending_bytes: int = PENDING_BYTES) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._pending_bytes = pending_bytes
        self._changed = threading.Condition()
        self._begun = ""
        self._waiting: deque[bytes | int] = deque()  # lines, and how many were dropped between
        self._held_bytes = 0
        self._lines = WholeLines()
        threading.Thread(target=self._run, name="process log", daemon=True).start()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, text: str) -> int:
        """Take ``text``; what does not end a line waits for the rest of it."""
        with self._changed:
            *lines, self._begun = (self._begun + text).split("\n")
            if len(self._begun) > self._pending_bytes:
                lines.append(self._begun)
                self._begun = ""
            for line in lines:
                self._take(line.encode("utf-8", self.errors) + b"\n")
        return len(text)

    def flush(self) -> None:
        """Nothing: who logs a line must not wait for a reader. See ``drain``."""

    def drain(self, limit_s: float) -> bool:
        """Wait until all is written, at most ``limit_s``; whether it is."""
        with self._changed:
            if self._begun:
                begun, self._begun = self._begun, ""
                self._take(begun.encode("utf-8", self.errors) + b"\n")
            return self._changed.wait_for(
                lambda: not self._held_bytes and not self._waiting, limit_s
            )

    def _take(self, line: bytes) -> None:
        if self._held_bytes + len(line) <= self._pending_bytes:
            self._waiting.append(line)
            self._held_bytes += len(line)
        elif self._waiting and isinstance(self._waiting[-1], int):
            self._waiting[-1] += 1
        else:
            self._waiting.append(1)
        self._changed.notify_all()

    def _run(self) -> None:
        dropped = 0
        while True:
            data, more = self._next()
            dropped += more
            if dropped and not self._put(_told(dropped)):
                dropped = 0
            dropped += self._put(data)
            with self._changed:
                self._held_bytes -= len(data)
                self._changed.notify_all()

    def _next(self) -> tuple[bytes, int]:
        """Whole lines that a pipe takes at once or not at all, or one longer line; or how many
        were dropped."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting)
            taken: list[bytes] = []
            size = 0
            while self._waiting:
                first = self._waiting[0]
                if isinstance(first, int):
                    if not taken:
                        self._waiting.popleft()
                        return b"", first
                    break
                size += len(first)
                if taken and size > select.PIPE_BUF:
                    break
                taken.append(first)
                self._waiting.popleft()
            return b"".join(taken), 0

    def _put(self, data: bytes) -> int:
        """Write it all, however long that takes; how many of its lines were refused."""
        refused, _ = self._lines.put(self._descriptor, data, write=_patient_write)
        return refused


def _patient_write(descriptor: int, data: memoryview) -> int:
    try:
        return os.write(descriptor, data)
    except BlockingIOError:  # the terminal or pipe was made so by who shares it
        select.select([], [descriptor], [], READ_AGAIN_S)
        return 0


def _told(dropped: int) -> bytes:
    at = time.strftime("%Y-%m-%d %H:%M:%S")
    what = f"dropped from the process log, not taken by standard error: {plural(dropped, 'line')}"
    return f"{at} WARNING trioroute: {what}\n".encode()


def take_over_stderr() -> None:
    """Make ``sys.stderr`` an ``Outlet`` until the process ends: log, messages, traces, warnings.

    A standard descriptor that was closed becomes the null device first: the log's own files must
    never be opened as one that somebody writes messages to.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free
    if sys.stderr is not None:
        sys.stderr.flush()
    sys.stderr = outlet = Outlet(2)
    atexit.register(outlet.drain, LAST_WORDS_S)
