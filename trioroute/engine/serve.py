"""Puts one replica together and runs it inside the caller's nursery."""

import attrs
import trio

from trioroute.engine.access import AccessLog
from trioroute.engine.api import Api
from trioroute.engine.batch import Batch
from trioroute.engine.door import Door
from trioroute.engine.faults import FaultDesk
from trioroute.engine.loop import StepLoop
from trioroute.engine.metrics import BatchCollector, Latencies
from trioroute.engine.settings import EngineSettings


@attrs.frozen(eq=False)
class EngineHandle:
    """What `nursery.start(serve_engine, settings)` returns.

    `batch` is the live model core: its `running`, `waiting` and `counters` may be read.
    """

    url: str
    faults: FaultDesk
    batch: Batch


async def serve_engine(
    settings: EngineSettings,
    *,
    task_status: trio.TaskStatus[EngineHandle] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serves until it is cancelled; open streams are then cut. Raises OSError if it cannot bind, or
    open its access log."""
    desk = FaultDesk()
    batch = Batch(settings)
    loop = StepLoop(batch, desk, Latencies(settings.models[0]))
    access = AccessLog(settings.access_log)
    try:
        api = Api(settings, loop, BatchCollector(batch, desk), access)
        door = Door(settings.host, settings.port)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(loop.run)
            nursery.start_soon(door.serve, api.respond, desk)
            task_status.started(EngineHandle(door.url, desk, batch))
    finally:
        access.close()
