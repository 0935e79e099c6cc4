"""One body reader as the router has it: a child process and one socket to it."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence

import attrs
import trio

from trioroute.proxy.bodies.frames import (
    ANSWER,
    ANSWER_BYTES_MAX,
    Answer,
    unpack_answer,
)

COMMAND = (sys.executable, "-P", "-m", "trioroute.proxy.bodies.child")
KEPT_ENVIRONMENT = (
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH"),
    *("PYTHONHOME", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE"),
)
"""Nothing else goes to the child: the router's environment holds the replicas' keys."""

START_S = 20.0
SEND_BYTES = 512 * 1024
"""Given to the kernel in one step of the event loop: 0.1 ms."""

RECEIVE_BYTES = 64 * 1024
NOTHING = b""

SOCKET_BYTES = 4 << 20
"""Asked for as the socket's buffer; the kernel gives what net.core.wmem_max allows."""

END_S = 2.0


class ChildLost(Exception):
    """The child died, or said what no child of ours says."""


@attrs.define(eq=False)
class ReaderProcess:
    """Used by one task. ``close`` it, whatever happened."""

    process: trio.Process
    _socket: socket.socket

    @property
    def pid(self) -> int:
        return self.process.pid

    async def ask(self, question: bytes, body: bytes) -> Answer:
        """``question`` as `pack_question` gives it. Raises ChildLost.

        Where it is cancelled, the child is good for nothing but `close`.
        """
        await self._send(memoryview(question))
        await self._send(memoryview(body))
        try:
            return unpack_answer(await self._receive())
        except ValueError as error:
            raise ChildLost(str(error)) from error

    async def ready(self) -> None:
        """Wait for its first word. Raises ChildLost."""
        if await self._receive() != NOTHING:
            raise ChildLost("its first word is not that of a body reader")

    async def close(self) -> None:
        """End it and take its exit code, so that nothing of it stays. Never raises Cancelled."""
        self._socket.close()
        self.process.kill()
        with trio.CancelScope(shield=True), trio.move_on_after(END_S):
            await self.process.wait()

    async def _send(self, data: memoryview) -> None:
        try:
            while data:
                try:
                    sent = self._socket.send(data[:SEND_BYTES])
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(self._socket)
                    continue
                data = data[sent:]
                if data:
                    await trio.lowlevel.checkpoint()
        except OSError as error:
            raise ChildLost(str(error)) from error

    async def _receive(self) -> bytes:
        """One answer without its length. Nothing comes behind it before the next question."""
        data = b""
        end = ANSWER.size
        while len(data) < end:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                more = self._socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                raise ChildLost(str(error)) from error
            if not more:
                raise ChildLost("it closed the socket")
            data += more
            if len(data) >= ANSWER.size:
                end = ANSWER.size + ANSWER.unpack_from(data)[0]
        if len(data) > end or end > ANSWER_BYTES_MAX:
            raise ChildLost(f"an answer of {max(len(data), end)} bytes")
        return data[ANSWER.size :]


async def start(command: Sequence[str] = COMMAND) -> ReaderProcess:
    """A child that is ready. Raises ChildLost, OSError or ValueError; then nothing is left of it.

    It is in a session of its own, so that Ctrl-C in a terminal reaches the router alone.
    """
    ours, its = socket.socketpair()
    made: ReaderProcess | None = None
    ready = False
    try:
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        process = await trio.lowlevel.open_process(
            command,
            stdin=its,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=_environment(os.environ),
            start_new_session=True,
        )
        its.close()
        made = ReaderProcess(process, ours)
        with trio.move_on_after(START_S) as limit:
            await made.ready()
        if limit.cancelled_caught:
            raise ChildLost(f"it was not ready within {START_S:g} s")
        ready = True
        return made
    finally:
        its.close()
        if made is None:
            ours.close()
        elif not ready:
            await made.close()


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The child imports from where this process does, whatever made its path so."""
    kept = {name: ours[name] for name in KEPT_ENVIRONMENT if name in ours}
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)  # noqa: PTH100 - "" too
    return kept | {"PYTHONPATH": path}
