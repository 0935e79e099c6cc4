"""Scripted replicas on real sockets (port 0), below HTTP so that they can break its rules."""

import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

CAPTURES = Path(__file__).parent / "captures"
UNDER_LOAD = (CAPTURES / "vllm-under-load.txt").read_bytes()
MODELS = (CAPTURES / "vllm-models.json").read_bytes()

Handler = Callable[[trio.SocketStream, str, bytes], Awaitable[None]]
"""Gets the connection, the path and the raw request head; the connection is closed after it."""


def reply(body: bytes = b"", status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def pages(**by_path: bytes) -> Handler:
    """Answers ``metrics``, ``health`` and ``models`` with these bytes, all else with 404."""
    table = {
        "/metrics": by_path.get("metrics"),
        "/health": by_path.get("health"),
        "/v1/models": by_path.get("models"),
    }

    async def handle(stream: trio.SocketStream, path: str, _head: bytes) -> None:
        await stream.send_all(table.get(path) or reply(b"{}", "404 Not Found"))

    return handle


def reset(stream: trio.SocketStream) -> None:
    """Close with RST instead of FIN."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


async def _connection(handler: Handler, stream: trio.SocketStream) -> None:
    try:
        head = b""
        while b"\r\n\r\n" not in head:
            piece = await stream.receive_some()
            if not piece:
                return
            head += piece
            if not head.startswith(b"GET"):
                break  # a TLS client hello, for one
        path = head.split(b" ", 2)[1].decode("latin-1") if head.startswith(b"GET") else ""
        await handler(stream, path, head)
    except trio.BrokenResourceError:
        pass  # the scraper hung up, as some tests want it to
    finally:
        await trio.aclose_forcefully(stream)


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A replica's url while the block lasts."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(
            partial(trio.serve_tcp, partial(_connection, handler), 0, host="127.0.0.1")
        )
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()
