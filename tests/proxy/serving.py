"""A server under test and raw clients: bytes in, bytes out, nothing in between."""

import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import attrs
import httpx
import trio

from tests.certificates import Pair
from trioroute.proxy.serving.asgi import ASGIApp, Message, Receive, Scope, Send
from trioroute.proxy.serving.hub import Door, Headers, RefusalBody
from trioroute.proxy.serving.limits import ServerLimits
from trioroute.proxy.serving.server import serve_http
from trioroute.proxy.serving.tls import Renewable
from trioroute.settings import read_certificate

PATIENCE_S = 40.0
"""For what is to come at once: above what a busy machine takes, below the limits of a server that
was told none (a stalled client's 60 s, an idle connection's 75 s)."""

QUICK = ServerLimits(graceful_timeout_s=5)
spoken: Pair | None = None
"""Set by the fixture ``either_way``: what servers have and clients trust; None: plain HTTP."""

GET = b"GET / HTTP/1.1\r\nhost: t\r\n\r\n"


def port_tls(pair: Pair) -> Renewable:
    """What a port speaks with that has this certificate."""
    return Renewable(read_certificate(pair.cert, pair.key).context)


@attrs.define
class Serving:
    port: int
    shutdown: trio.Event
    refusals: list[str]
    stopped: trio.Event

    @property
    def url(self) -> str:
        return f"{'http' if spoken is None else 'https'}://127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(
    app: ASGIApp,
    limits: ServerLimits = QUICK,
    tls: Renewable | None = None,
    refusal_headers: Callable[[Headers], Headers] | None = None,
    door: Door | None = None,
    refusal_body: RefusalBody | None = None,
    drain: trio.Event | None = None,
) -> AsyncIterator[Serving]:
    refusals: list[str] = []
    if tls is None and spoken is not None:
        tls = port_tls(spoken)
    shutdown, stopped = trio.Event(), trio.Event()

    async def run(task_status: trio.TaskStatus[list[tuple[str, int]]]) -> None:
        await serve_http(
            app,
            ["127.0.0.1:0"],
            limits,
            shutdown=shutdown,
            drain=drain,
            tls=tls,
            refusal_headers=refusal_headers,
            door=door,
            refusal_body=refusal_body,
            on_refusal=refusals.append,
            task_status=task_status,
        )
        stopped.set()

    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(run))
        yield Serving(bound[0][1], shutdown, refusals, stopped)
        nursery.cancel_scope.cancel()


@attrs.define
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


class RawClient:
    """One connection; writes what it is told, reads responses one by one."""

    def __init__(self, stream: trio.SocketStream | trio.SSLStream[trio.SocketStream]) -> None:
        self.stream = stream
        self.transport = (
            stream if isinstance(stream, trio.SocketStream) else stream.transport_stream
        )
        self.buffer = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def fill(self) -> bool:
        with trio.fail_after(PATIENCE_S):
            data = await self.stream.receive_some(65536)
        self.buffer += data
        return bool(data)

    async def until(self, end: bytes) -> bytes:
        while end not in self.buffer:
            if not await self.fill():
                raise EOFError(self.buffer)
        at = self.buffer.index(end) + len(end)
        taken, self.buffer = self.buffer[:at], self.buffer[at:]
        return taken

    async def exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            if not await self.fill():
                raise EOFError(self.buffer)
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    async def rest(self) -> bytes:
        while await self.fill():
            pass
        taken, self.buffer = self.buffer, b""
        return taken

    async def head(self) -> Reply:
        lines = (await self.until(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.partition(": ")
            assert name not in headers, name
            headers[name] = value
        return Reply(int(lines[0].split()[1]), headers, b"")

    async def reply(self, *, bodiless: bool = False) -> Reply:
        reply = await self.head()
        if bodiless or reply.status in (204, 304):
            return reply
        if "transfer-encoding" in reply.headers:
            assert "content-length" not in reply.headers
            while size := int(await self.until(b"\r\n"), 16):
                reply.body += await self.exactly(size)
                assert await self.exactly(2) == b"\r\n"
            assert await self.exactly(2) == b"\r\n"
        elif "content-length" in reply.headers:
            reply.body = await self.exactly(int(reply.headers["content-length"]))
        else:
            reply.body = await self.rest()
        return reply

    def reset(self) -> None:
        sock = self.transport.socket
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()

    async def half_close(self) -> None:
        await self.transport.send_eof()

    async def ended(self) -> bool:
        """Whether the server closes (or resets) the connection, without another byte."""
        try:
            return not await self.fill()
        except trio.BrokenResourceError:
            return True


@asynccontextmanager
async def client(port: int) -> AsyncIterator[RawClient]:
    async with speaking(port, None if spoken is None else spoken.client()) as c:
        yield c


@asynccontextmanager
async def speaking(port: int, tls: ssl.SSLContext | None) -> AsyncIterator[RawClient]:
    transport = await trio.open_tcp_stream("127.0.0.1", port)
    try:
        if tls is None:
            yield RawClient(transport)
        else:
            stream = trio.SSLStream(
                transport, tls, server_hostname="127.0.0.1", https_compatible=True
            )
            with trio.fail_after(PATIENCE_S):
                await stream.do_handshake()
            yield RawClient(stream)
    finally:
        transport.socket.close()


def web_client(server: Serving) -> httpx.AsyncClient:
    """A client library, speaking as the server does."""
    verify = True if spoken is None else spoken.client()
    return httpx.AsyncClient(base_url=server.url, verify=verify)


async def say(send: Send, body: bytes, status: int = 200) -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def start(send: Send, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": []})


async def chunk(send: Send, body: bytes, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    await say(send, (await receive())["body"])


@attrs.define
class Recorder:
    """Keeps what an application was given and answers with the body it got."""

    scopes: list[Scope] = attrs.field(factory=list)
    messages: list[Message] = attrs.field(factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        self.messages.append(await receive())
        await say(send, self.messages[-1]["body"])


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counted, not used as paths


async def eventually(check: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Wait until `check()` is true; fails loudly otherwise."""
    deadline = trio.current_time() + seconds
    while not check():
        assert trio.current_time() < deadline, "never became true"
        await trio.sleep(0.01)


@attrs.define
class Silent:
    """Never answers; counts how many calls began and ended."""

    begun: int = 0
    ended: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        try:
            await trio.sleep_forever()
        finally:
            self.ended += 1


@attrs.define
class Endless:
    """Answers without end; ``taken`` bytes were taken from it."""

    taken: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        while True:
            await chunk(send, b"x" * 10_000)
            self.taken += 10_000
