"""What signals make the router do: read its configuration again, and end in order."""

import logging
import signal
from contextlib import suppress

import trio

from eventlog import LogError
from trioroute.assembly import Parts
from trioroute.changes import RunningChanges
from trioroute.counted import plural
from trioroute.supervisor import STOPPING, tell_supervisor

logger = logging.getLogger("trioroute")

LOOK_FOR_END_S = 0.02
LAST_WORD_S = 1.0
"""For the answers to who is still in line when the grace is over."""


async def heed_signals(
    parts: Parts, changes: RunningChanges, hurry: trio.CancelScope, nursery: trio.Nursery
) -> None:
    """SIGTERM and SIGINT drain; a second one hurries; none keeps the log from being closed.

    SIGHUP reads the configuration again.
    """
    patience = trio.CancelScope()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        async for number in received:
            if number == signal.SIGHUP:
                nursery.start_soon(_reload, changes)
            elif parts.ending:
                logger.warning("second signal: ending what is still running")
                patience.cancel()
            else:
                parts.ending = True
                nursery.start_soon(_end, parts, patience, hurry, number)


async def _reload(changes: RunningChanges) -> None:
    with suppress(LogError):  # told in the process log, and counted
        await changes.read_again("signal")


async def _end(
    parts: Parts, patience: trio.CancelScope, hurry: trio.CancelScope, number: int
) -> None:
    """Not ready at once, refusing after the settle time, gone when nothing runs any more.

    From the signal on no connection is kept, so that when it gets serious few are open and idle. A
    balancer in front needs the settle time to notice; whoever pressed Ctrl-C has none. What still
    runs when ``server.graceful_timeout`` is over, counted from the signal, is ended; who has only
    waited in line until then is told so, for it may be asked again elsewhere.
    """
    tell_supervisor(STOPPING)
    server = parts.settings.in_force.server
    grace_s = server.graceful_timeout_ms / 1000
    settle_s = 0.0 if number == signal.SIGINT else min(grace_s, server.settle_ms / 1000)
    patience.deadline = trio.current_time() + grace_s
    running = len(parts.router.state.load.flights)
    logger.info(
        "signal %d: not ready any more, refusing new requests in %g s, %s in flight",
        number,
        settle_s,
        plural(running, "request"),
    )
    parts.drain.set()
    with patience:
        await trio.sleep(settle_s)
        parts.desk.stopping = True
        await _until(parts, 0)
        parts.shutdown.set()
        await trio.sleep_forever()
    running = parts.desk.running
    with trio.move_on_after(LAST_WORD_S):
        await _until(parts, running - parts.desk.end_grace())
    hurry.cancel()


async def _until(parts: Parts, running: int) -> None:
    """Return when no more than so many run."""
    while parts.desk.running > running:  # noqa: ASYNC110 - requests need no event for the one time they are waited for
        await trio.sleep(LOOK_FOR_END_S)
