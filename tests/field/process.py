"""The router as a process of its own over stubs that run here: for exit codes, signals, limits."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from tests.e2e.fleet import RouterProcess
from tests.field.site import NAMES
from tests.field.stub import Stub

SHORT = {
    "TRIOROUTE_SCRAPE_INTERVAL": "200ms",
    "TRIOROUTE_SCRAPE_TIMEOUT": "2s",
    "TRIOROUTE_LOG_SYNC": "normal",
}


@asynccontextmanager
async def router_process(
    directory: Path,
    *stubs: Stub,
    settings: Mapping[str, str] | None = None,
    under: tuple[str, ...] = (),
) -> AsyncIterator[RouterProcess]:
    """A router that is ready; ``settings`` are keys with ``_`` for the dot. It is killed at last.

    Leaving it in order checks that its log verifies and that its process log tells no fault.
    """
    env = {
        **SHORT,
        **{f"TRIOROUTE_{key.upper()}": value for key, value in (settings or {}).items()},
    }
    async with trio.open_nursery() as nursery:
        for name, stub in zip(NAMES, stubs, strict=False):
            stub.name = name
            await nursery.start(stub.run)
        router = RouterProcess(directory, stubs, env={**os.environ, **env}, under=under)
        try:
            await trio.to_thread.run_sync(router.ready)
            yield router
            await stop(router)
            await trio.to_thread.run_sync(router.verify)
            for word in ("Traceback", "ERROR trioroute:", "ERROR trioroute.proxy", "rror in task"):
                assert word not in router.text(), router.text()
        finally:
            router.kill()
            nursery.cancel_scope.cancel()


async def stop(router: RouterProcess) -> int:
    """Tell it to end, if it runs; what it ended with."""
    return await trio.to_thread.run_sync(router.stop)


async def exit_code(router: RouterProcess) -> int:
    """Wait for the end of one that was told to end; what it ended with."""
    return await trio.to_thread.run_sync(partial(router.popen.wait, 60))
