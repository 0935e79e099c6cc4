"""The small, obvious proxy in Python: hypercorn and httpx.AsyncClient. A yardstick only."""

import itertools
import os
from typing import Any

import httpx

HOP_BY_HOP = {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
URLS = os.environ.get("BENCH_UPSTREAMS", "").split()
_limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
_client = httpx.AsyncClient(timeout=None, limits=_limits)
_next_url = itertools.cycle(URLS)


def passed_on(headers: Any, *dropped: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in HOP_BY_HOP and name.lower() not in dropped
    ]


async def body_of(receive: Any) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    request = _client.build_request(
        scope["method"],
        next(_next_url) + scope["path"],
        headers=passed_on(scope["headers"], b"host"),
        content=await body_of(receive),
    )
    answer = await _client.send(request, stream=True)
    try:
        start = {"type": "http.response.start", "status": answer.status_code}
        await send({**start, "headers": passed_on(answer.headers.raw)})
        async for chunk in answer.aiter_raw():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        await answer.aclose()
