"""Clients that go away: noticed at once, on every connection, at no cost per request.

A client counts as gone when it closes, resets, or half-closes its connection (nginx's rule: a
half-close cannot be told from a close until something is sent). The application learns of it by
being cancelled; its releases live in `finally` and are plain calls.
"""

import select
from collections.abc import Mapping
from typing import Any, Protocol

import attrs
import trio

EXTENSION = "trioroute.client"


@attrs.define
class Client:
    """What the server knows about the client of a request. Neither goes back to False."""

    gone: bool = False
    stalled: bool = False
    """It is gone because it was given up: it took no byte for ``client_stall_ms``."""


def client_gone(scope: Mapping[str, Any]) -> bool:
    """Whether the client of this ASGI scope has gone away.

    For a `finally`: tells a client's hang-up from a shutdown, both of which cancel.
    """
    client = scope["extensions"].get(EXTENSION)
    return isinstance(client, Client) and client.gone


def client_stalled(scope: Mapping[str, Any]) -> bool:
    """Whether it is gone because it took nothing for too long, as server or kernel noticed."""
    client = scope["extensions"].get(EXTENSION)
    return isinstance(client, Client) and client.stalled


class Watched(Protocol):
    """A connection that can be told of a hang-up."""

    def hang_up(self) -> None:
        """The client is gone. Called at most a few times; must not block."""


class HangupWatch:
    """One epoll for the hang-ups of all connections, watched by one task.

    Edge-triggered EPOLLRDHUP costs one system call per connection and none per request. It also
    reports a client that left unread bytes (a pipelined request) in the socket, where waiting for
    readability would find the bytes and not the end.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, Watched] = {}

    def add(self, fd: int, connection: Watched) -> None:
        """Watch `fd` until `remove`. After `close` the connection is told to go at once."""
        if self._epoll.closed:
            connection.hang_up()
            return
        self._watched[fd] = connection
        self._epoll.register(fd, select.EPOLLRDHUP | select.EPOLLET)

    def remove(self, fd: int) -> None:
        """Forget `fd`; call before it is closed. Unknown ones are ignored."""
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    async def run(self) -> None:
        """Tell connections of their hang-ups until cancelled, then free the epoll."""
        try:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                for fd, _ in self._epoll.poll(0):
                    connection = self._watched.get(fd)
                    if connection is not None:
                        connection.hang_up()
        finally:
            self.close()

    def close(self) -> None:
        """Free the epoll."""
        self._watched.clear()
        self._epoll.close()
