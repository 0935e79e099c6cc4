"""Time as an event loop had it: what the machine took for others is not counted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

STEP_S = 0.01

HELD_UP = "the router itself was held up"
"""The router says so, rightly, where the machine or the replicas in its process took their time."""


@attrs.define
class LoopTime:
    """``seconds``: so long the loop has turned. A turn that came late counts as two steps."""

    seconds: float = 0.0

    async def run(self) -> None:
        while True:
            before = trio.current_time()
            await trio.sleep(STEP_S)
            self.seconds += min(trio.current_time() - before, 2 * STEP_S)


@asynccontextmanager
async def loop_time() -> AsyncIterator[LoopTime]:
    """For what is to happen within a time: on a machine that stood still meanwhile a clock on the
    wall says nothing. Waiting for a limit counts in full, a loop that is blocked does not."""
    made = LoopTime()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        yield made
        nursery.cancel_scope.cancel()
