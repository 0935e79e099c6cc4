"""A scripted API: routes by path, every request recorded, streams fed by the test."""

import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import cast
from urllib.parse import parse_qsl, urlsplit

import attrs
import trio

from tests.proxy.replies import LAST, chunk, reply, stream_head
from tests.proxy.scripted import Peer, replica
from trioroute.proxy.serving.tls import Renewable

Query = dict[str, str]
Answer = tuple[int, object]


@attrs.define
class Request:
    path: str
    query: Query
    token: str


@attrs.define
class Server:
    """``get`` answers what is no watch. ``feed`` holds what open watches get, None to end them."""

    get: Callable[[str, Query], Answer]
    requests: list[Request] = attrs.field(factory=list)
    watches: list["Watch"] = attrs.field(factory=list)
    watch_status: int = 200
    url: str = ""

    async def __call__(self, peer: Peer) -> None:
        while raw := await peer.request():
            request = self._read(raw)
            self.requests.append(request)
            if "watch" in request.query and self.watch_status == 200:
                await self._stream(peer, request)
                return
            told: object = {}
            if "watch" in request.query:
                status = self.watch_status
            else:
                status, told = self.get(request.path, request.query)
            body = told if isinstance(told, bytes) else json.dumps(told).encode()
            await peer.send(reply(body, status))

    def _read(self, raw: bytes) -> Request:
        head = raw.decode().split("\r\n")
        target = urlsplit(head[0].split(" ")[1])
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
        query = dict(parse_qsl(target.query, keep_blank_values=True))
        return Request(target.path, query, headers.get("authorization", ""))

    async def _stream(self, peer: Peer, request: Request) -> None:
        send, receive = trio.open_memory_channel[bytes | None](100)
        self.watches.append(Watch(request, send))
        await peer.send(stream_head())
        async for data in receive:
            if data is None:
                await peer.send(LAST)
                return
            await peer.send(chunk(data))

    @property
    def lists(self) -> list[Request]:
        return [one for one in self.requests if "watch" not in one.query]


@attrs.define
class Watch:
    request: Request
    channel: trio.MemorySendChannel[bytes | None]

    def say(self, data: bytes | None) -> None:
        self.channel.send_nowait(data)


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[Server]:
    async with replica(server) as made:
        server.url = made.url
        yield server


@asynccontextmanager
async def serving_tls(server: Server, tls: Renewable) -> AsyncIterator[Server]:
    """The same over TLS. The present context of ``tls`` counts for each handshake."""

    async def talk(stream: trio.SSLStream[trio.SocketStream]) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await stream.do_handshake()
            await server(TlsPeer(stream))
            await stream.aclose()

    async def accept(stream: trio.SocketStream) -> None:
        await talk(trio.SSLStream(stream, cast("ssl.SSLContext", tls), server_side=True))

    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, accept, 0, host="127.0.0.1")
        listeners = await nursery.start(serve)
        server.url = f"https://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        yield server
        nursery.cancel_scope.cancel()


class TlsPeer(Peer):
    """A peer behind TLS."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        super().__init__(stream.transport_stream, 0)
        self._tls = stream

    async def _fill(self) -> bool:
        data = await self._tls.receive_some(65536)
        self.received += bytes(data)
        return bool(data)

    async def send(self, data: bytes) -> None:
        await self._tls.send_all(data)
