"""The access log: one JSON line a request, written beside the traffic (HTTP.md).

Names and numbers only: no query, no header value, no address of a client, no key but its name.
"""

import fcntl
import logging
import os
import sys
import termios
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from select import PIPE_BUF

import attrs
import orjson
import trio

from trioroute.counted import plural
from trioroute.proxy.passage import Passage
from trioroute.proxy.serving.asgi import Message, Scope, Send
from trioroute.proxy.serving.exchange import EXTENSION as OUTLET
from trioroute.whole_lines import WholeLines

logger = logging.getLogger("trioroute.proxy")

LINES_MAX = 50_000
"""Kept for the disk; more are dropped and counted."""

WRITE_EVERY_S = 0.2
PATH_MAX = 200
STDERR = 2
ROOM_AGAIN_S = 0.01
APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC

LAST_WRITE_S = 0.5
"""How long the end of the router waits for a file that takes nothing: a pipe without a reader."""


@attrs.define(eq=False)
class Request:
    """One request on its way; ``passage`` is set once it is a proxied one."""

    scope: Scope
    passage: Passage | None = None
    status: int | None = None
    body_bytes: int = 0
    whole: bool = False
    begun_ns: int = attrs.field(factory=time.perf_counter_ns)

    def watching(self, send: Send) -> Send:
        """``send``, but what goes through it is noted."""

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
            else:
                self.body_bytes += len(message.get("body", b""))
                self.whole = not message.get("more_body", False)
            await send(message)

        return noted

    def line(self) -> bytes:
        passage = self.passage
        chosen = None if passage is None else passage.chosen
        profile = None if passage is None else passage.profile
        return orjson.dumps(
            {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "request_id": None if passage is None else passage.request_id,
                "method": self.scope["method"],
                "path": self.scope["path"][:PATH_MAX],
                "status": self.status,
                "whole": self.whole,
                "bytes": self.body_bytes + _passed_bytes(self.scope),
                "duration_ms": (time.perf_counter_ns() - self.begun_ns) // 1_000_000,
                "model": None if profile is None or not profile.model else _clean(profile.model),
                "key": None if passage is None else passage.key_name,
                "decision": (
                    None
                    if passage is None or chosen is None
                    else passage.desk.router.decision_name(chosen.number)
                ),
                "replica": None if chosen is None else chosen.event.replica,
                "reason": None if chosen is None else chosen.event.reason,
                "attempts": 0 if passage is None or chosen is None else passage.attempt,
            },
            option=orjson.OPT_APPEND_NEWLINE,
        )


def _passed_bytes(scope: Scope) -> int:
    """Of the body, what went to the client without a message of its own."""
    outlet = scope["extensions"].get(OUTLET)
    return 0 if outlet is None else outlet.passed_bytes


def _clean(model: str) -> str:
    """A lone surrogate is valid in the JSON of a body, but no UTF-8: written as its escape."""
    return model.encode("utf-8", "backslashreplace").decode()


class AccessLog:
    """Lines are kept until a task writes them, so that a slow disk delays no request."""

    def __init__(self, path: Path | None) -> None:
        """Into a file, or to stderr if ``path`` is None."""
        self._path = path
        self._lines: list[bytes] = []
        self.dropped = 0
        self._one_batch = threading.Lock()
        self._lost: int | None = None
        self._written = WholeLines()

    def note(self, request: Request) -> None:
        """Plain and quick: called in a ``finally``."""
        if len(self._lines) >= LINES_MAX:
            self.dropped += 1
            return
        self._lines.append(request.line())

    async def run(self) -> None:
        """Write until cancelled, and then what is left, if the file takes it in LAST_WRITE_S.

        A file is opened anew for each batch: after a rotation the next line is in the new one.
        """
        try:
            while True:
                await trio.sleep(WRITE_EVERY_S)
                if self._lines:
                    await self._put()
        finally:
            # A write cannot be ended from outside; its thread is a daemon and keeps nobody here.
            with trio.CancelScope(deadline=trio.current_time() + LAST_WRITE_S, shield=True):
                await self._put()

    async def _put(self) -> None:
        await trio.to_thread.run_sync(self._write, self._taken(), abandon_on_cancel=True)

    def _taken(self) -> bytes:
        lines, self._lines = self._lines, []
        dropped, self.dropped = self.dropped, 0
        if dropped:
            logger.warning(
                "access log: %s dropped, it is written too slowly", plural(dropped, "line")
            )
        return b"".join(lines)

    def _write(self, data: bytes) -> None:
        """In a thread, behind the batch before. Trouble is told when it begins and when it ends."""
        with self._one_batch:
            if not data:
                return
            lost, error = self._append(data)
            if error is not None and self._lost is None:
                logger.error("access log: cannot be written, lines are lost: %s", error)
            if error is not None:
                self._lost = (self._lost or 0) + lost
            elif self._lost is not None:
                logger.warning("access log: written again, %s lost", plural(self._lost, "line"))
                self._lost = None

    def _append(self, data: bytes) -> tuple[int, OSError | None]:
        """The lines that were not written, and why."""
        # Not through sys.stderr: a thread left in its lock aborts the interpreter's end.
        if self._path is None:
            return self._written.put(STDERR, data, _stderr_takes)
        lost = data.count(b"\n")
        try:
            out = os.open(self._path, APPENDING, 0o666)
            try:
                lost, error = self._written.put(out, data)
            finally:
                os.close(out)
        except OSError as failure:
            error = failure
        return lost, error


def _stderr_takes(data: bytes, begin: int) -> int:
    """The end of the whole lines to write at once, when there is room for them.

    A pipe is filled by a quarter at most: the process log shares it, and where nobody reads, its
    lines are worth more than these.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # no pipe
            quarter = fcntl.fcntl(STDERR, fcntl.F_GETPIPE_SZ) // 4
            while _unread(STDERR) > quarter:
                time.sleep(ROOM_AGAIN_S)
    return data.rfind(b"\n", begin, begin + PIPE_BUF) + 1 or begin + PIPE_BUF


def _unread(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def access_log_of(setting: str) -> AccessLog | None:
    """Of ``server.access_log``: off, stderr, or a file."""
    if setting == "off":
        return None
    return AccessLog(None if setting == "stderr" else Path(setting))
