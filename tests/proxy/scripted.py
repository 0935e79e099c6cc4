"""A replica that follows a script: exact bytes out, exact bytes recorded."""

import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import attrs
import httpx
import trio

from trioroute.proxy.upstream.transport import ReplicaTransport

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Peer:
    """The replica's end of one connection."""

    def __init__(self, stream: trio.SocketStream, index: int) -> None:
        self.stream = stream
        self.index = index
        self.received = b""
        self.gone = trio.Event()

    async def request(self) -> bytes:
        """One request with its Content-Length body; empty when the router closed."""
        while b"\r\n\r\n" not in self.received:
            if not await self._fill():
                return b""
        head, _, rest = self.received.partition(b"\r\n\r\n")
        size = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        parts, missing = [rest], size - len(rest)
        while missing > 0:
            data = await self.stream.receive_some(65536)
            if not data:
                return b""
            parts.append(data)
            missing -= len(data)
        rest = b"".join(parts)
        self.received = rest[size:]
        return head + b"\r\n\r\n" + rest[:size]

    async def _fill(self) -> bool:
        data = await self.stream.receive_some(65536)
        self.received += data
        return bool(data)

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def wait_gone(self) -> None:
        """Read until the router closes."""
        try:
            while await self._fill():
                pass
        except trio.BrokenResourceError:
            pass
        self.gone.set()

    def reset(self) -> None:
        sock = self.stream.socket
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()


Script = Callable[[Peer], Awaitable[None]]


@attrs.define
class Replica:
    port: int = 0
    peers: list[Peer] = attrs.field(factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


async def at_once() -> None:
    await trio.lowlevel.checkpoint()


@attrs.define
class Door(trio.abc.Listener[trio.SocketStream]):
    """A listener that takes a connection only after ``before_accept``."""

    listener: trio.SocketListener
    before_accept: Callable[[], Awaitable[None]]

    async def accept(self) -> trio.SocketStream:
        await self.before_accept()
        return await self.listener.accept()

    async def aclose(self) -> None:
        await self.listener.aclose()


@asynccontextmanager
async def replica(
    script: Script, port: int = 0, before_accept: Callable[[], Awaitable[None]] = at_once
) -> AsyncIterator[Replica]:
    """Runs the script on every connection; closes it when the script returns."""
    made = Replica()

    async def handle(stream: trio.SocketStream) -> None:
        peer = Peer(stream, len(made.peers))
        made.peers.append(peer)
        try:
            await script(peer)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            peer.gone.set()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(port, host="127.0.0.1")
        made.port = listener.socket.getsockname()[1]
        door = Door(listener, before_accept)
        await nursery.start(partial(trio.serve_listeners, handle, [door]))
        yield made
        nursery.cancel_scope.cancel()


def answers(*responses: bytes) -> Script:
    """Each connection answers each request with the next response, then closes."""

    async def script(peer: Peer) -> None:
        for response in responses:
            if not await peer.request():
                return
            await peer.send(response)

    return script


def always(response: bytes) -> Script:
    """Keep-alive for ever."""

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(response)

    return script


@asynccontextmanager
async def transport_to(
    url: str, connect_timeout_s: float = 2.0, max_idle: int = 64, idle_expiry_s: float = 4.0
) -> AsyncIterator[ReplicaTransport]:
    transport = ReplicaTransport(
        url, connect_timeout_s=connect_timeout_s, max_idle=max_idle, idle_expiry_s=idle_expiry_s
    )
    try:
        yield transport
    finally:
        await transport.aclose()


async def get(transport: ReplicaTransport, method: str = "GET", content: bytes = b"") -> bytes:
    response = await transport.handle_async_request(
        httpx.Request(method, "http://replica/", content=content)
    )
    return b"".join([part async for part in response.aiter_raw()])
