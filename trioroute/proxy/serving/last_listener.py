"""A listener that closes on nobody: who connected before the end is served.

The kernel completes connections by itself and keeps them in line until they are accepted; closing
the listening socket resets those. Between the decision to end and the close lies at least one pass
of the event loop, so under load a few are always there, each with a request on its way.
"""

import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import NoReturn

import trio

Handler = Callable[[trio.SocketStream], Awaitable[object]]


class LastListener(trio.abc.Listener[trio.SocketStream]):
    """When it closes it gives ``serve`` each connection that is still in line, ``most`` at most."""

    def __init__(
        self,
        listener: trio.SocketListener,
        serve: Callable[[trio.SocketStream], None],
        most: int,
    ) -> None:
        self._listener = listener
        self._serve = serve
        self._most = most

    async def accept(self) -> trio.SocketStream:
        """As SocketListener."""
        return await self._listener.accept()

    async def aclose(self) -> None:
        """Take the line and close with no wait between, so that nobody comes behind the last look
        and is reset: who comes now is refused by the kernel, which is safe to try elsewhere."""
        listening = self._listener.socket
        if listening.fileno() >= 0:
            with socket.socket(fileno=os.dup(listening.fileno())) as line:
                line.setblocking(False)
                taken = _all_of(line, self._most)
                listening.close()
            for one in taken:
                self._serve(trio.SocketStream(trio.socket.from_stdlib_socket(one)))
        await trio.lowlevel.checkpoint()


def _all_of(line: socket.socket, most: int) -> list[socket.socket]:
    taken: list[socket.socket] = []
    try:
        while len(taken) < most:
            taken.append(line.accept()[0])
    except OSError:
        pass  # nobody is left, or there is no descriptor for one more
    return taken


def trio_with_last_listeners(most: int) -> SimpleNamespace:
    """Trio's public names, with a ``serve_listeners`` that leaves nobody in line at its end."""

    async def serve_listeners(
        handler: Handler,
        listeners: Sequence[trio.SocketListener],
        *,
        handler_nursery: trio.Nursery,
    ) -> NoReturn:
        def serve(stream: trio.SocketStream) -> None:
            handler_nursery.start_soon(handler, stream)

        last = [LastListener(one, serve, most) for one in listeners]
        await trio.serve_listeners(handler, last, handler_nursery=handler_nursery)

    return SimpleNamespace(**{**vars(trio), "serve_listeners": serve_listeners})
