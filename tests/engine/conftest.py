"""One replica on a free port per call, and a client for it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
import trio

from trioroute.engine import EngineHandle, EngineSettings, serve_engine

StartEngine = Callable[..., Awaitable[EngineHandle]]
ClientOf = Callable[[EngineHandle], Awaitable[httpx.AsyncClient]]


@pytest.fixture
async def start_engine(nursery: trio.Nursery) -> StartEngine:
    """Starts a replica; fast unless the test says otherwise."""

    async def start(**settings: Any) -> EngineHandle:
        quick: dict[str, Any] = {"decode_tokens_per_s": 1000.0, "answer_tokens": 5}
        handle: EngineHandle = await nursery.start(
            serve_engine, EngineSettings(**(quick | settings))
        )
        return handle

    return start


@pytest.fixture
async def client_of() -> AsyncIterator[ClientOf]:
    """Opens clients that are closed when the test ends."""
    async with AsyncExitStack() as stack:

        async def open_client(handle: EngineHandle) -> httpx.AsyncClient:
            # verify=False: loading certificates costs 40 ms, and there is no TLS here
            client = httpx.AsyncClient(
                base_url=handle.url, timeout=40, trust_env=False, verify=False
            )
            return await stack.enter_async_context(client)

        yield open_client


async def until(holds: Callable[[], bool], within_s: float = 40) -> None:
    """Looks again and again for something that happens elsewhere; fails after `within_s`."""
    with trio.fail_after(within_s):
        while True:
            if holds():
                return
            await trio.sleep(0.005)


def chat(text: str = "hello", **rest: Any) -> dict[str, Any]:
    """A chat body with one message."""
    return {"messages": [{"role": "user", "content": text}], **rest}
