"""The router as a process: opens the log, folds it, wires the parts, listens, and ends in order.

store -> recover -> journal -> Started, Orphaned, Configured, replicas
      -> first round of scrapes -> admin port, data port -> signal -> drain -> Stopped
"""

import gc
import logging
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import cast

import attrs
import trio

from eventlog import LogError, StoreFailed
from eventlog.errors import EntriesLost
from eventlog.retention import Retention
from trioroute.admin_desk import admin_desk
from trioroute.assembly import Parts, begin, rounds_of
from trioroute.changes import RunningChanges
from trioroute.events import InForce
from trioroute.events.sections import Log
from trioroute.kept_memory import keep_freed_memory
from trioroute.last_loss import unwritten_of, what_is_lost
from trioroute.observe import admin_app, tell_refusals, watch_loop_lag
from trioroute.policy import commands as c
from trioroute.proxy.access_log import AccessLog
from trioroute.proxy.app import proxy_app
from trioroute.proxy.desk import Desk
from trioroute.proxy.door import Door, refusal_body
from trioroute.proxy.serving.asgi import ASGIApp
from trioroute.proxy.serving.limits import ServerLimits
from trioroute.proxy.serving.server import serve_http
from trioroute.settings import Settings
from trioroute.signals import heed_signals
from trioroute.supervisor import READY, tell_supervisor
from trioroute.upkeep import Archiving, Retaining, SideFile, Snapshotting, keep_up

logger = logging.getLogger("trioroute")

TICK_S = 0.5
LOOP_LAG_EVERY_MS = 50
CONNECTIONS_MAX = 8192
NO_LIMIT_MS = 1_000_000_000
"""Eleven days: what a limit of 0 (off) is where a number is needed."""

DESCRIPTORS_PER_CONNECTION = 2
"""One for the client, one for its replica."""

DESCRIPTORS_BESIDE = 40
"""For scrapes, the log and its upkeep."""

ADMIN_CONNECTIONS_MIN, ADMIN_CONNECTIONS_MAX = 64, 256

ADMIN_BODY_BYTES = 1 << 20
GC_THRESHOLD = 50_000
TURN_S = 0.0005
"""How long a thread may go on while another waits for the interpreter: Python's own 5 ms is what
the loop is to take at most for everything. With an explanation being made in a thread, a sleep of
the loop ends 1 ms late in the middle, not 6; and a commit is known to be durable that much sooner,
which saves the loop turns under full load."""


async def tick(parts: Parts) -> None:
    """Let time pass in the core: expiries, returns to traffic, checks. Tell of a log in trouble."""
    was_failing = False
    while True:
        await trio.sleep(TICK_S)
        parts.tell(c.Tick(at_ms=parts.now_ms()))
        parts.router.close_hole(parts.now_ms())
        failing = parts.journal.failing
        if failing is not None and not was_failing:
            serves = parts.router.state.settings.log.on_failure == "serve"
            effect = "responses go out unlogged" if serves else "requests get 503"
            logger.error("the event log cannot be written, %s: %s", effect, failing)
        elif failing is None and was_failing:
            logger.info("the event log is written again")
        was_failing = failing is not None


async def upkeep(parts: Parts) -> None:
    """Snapshots, archive and retention of the log, for ever."""
    covered = parts.recovered.state.position - parts.recovered.folded

    def log() -> Log:
        return parts.router.state.settings.log

    def retention() -> Retention:
        return Retention(log().retain_age_ms, log().retain_bytes)

    directory = parts.directory

    def position() -> int:
        return parts.journal.durable_position

    now_ms = parts.now_ms
    snapshotting = Snapshotting(directory, position, covered, now_ms)
    archiving = Archiving(directory, lambda: log().archive, now_ms)
    retaining = Retaining(directory, retention, lambda: bool(log().archive), now_ms)
    parts.timings.upkeep = {
        "snapshot": snapshotting.deeds,
        "archive": archiving.deeds,
        "retention": retaining.deeds,
    }
    async with trio.open_nursery() as nursery:
        run = nursery.start_soon
        run(keep_up, "making snapshots of the log", snapshotting.run, snapshotting.deeds)
        run(keep_up, "watching the log's side file", SideFile(directory).run)
        run(keep_up, "log.archive", archiving.run, archiving.deeds)
        run(keep_up, "the retention of the log", retaining.run, retaining.deeds)


async def run(
    parts: Parts,
    environ: Mapping[str, str],
    announce: Callable[[str, str], None],
    reread: Callable[[], Settings] | None = None,
) -> None:
    """Serve until a signal; returns when the log holds everything. ``announce(api, admin)``.

    ``reread`` reads the configuration again, for a reload; without it there is nothing new.
    """
    hurry = trio.CancelScope()
    changes = RunningChanges(parts, rounds_of(parts), reread or (lambda: parts.settings), environ)
    try:
        async with trio.open_nursery() as signals:
            signals.start_soon(heed_signals, parts, changes, hurry, signals)
            async with trio.open_nursery() as log_nursery:
                await log_nursery.start(_write_log, parts)
                begin(parts)
                try:
                    with hurry:
                        await _serve(parts, changes, announce)
                finally:
                    _log_the_end(parts)
                    parts.journal.close()
            logger.info("the log is whole up to %s", parts.store.last_head)
            signals.cancel_scope.cancel()
    finally:
        await parts.desk.upstreams.aclose()
        if parts.desk.spans is not None:
            await parts.desk.spans.close()


async def _write_log(parts: Parts, *, task_status: trio.TaskStatus[None]) -> None:
    try:
        await parts.journal.run(task_status=task_status)
    except EntriesLost as lost:
        since_ms = parts.journal.stalled_since_ms
        parts.store.unwritten = unwritten_of(
            lost, parts.router.hole, parts.journal.durable_position, since_ms, parts.now_ms()
        )
        raise StoreFailed(str(parts.directory), what_is_lost(lost, parts.router.hole)) from lost


def _log_the_end(parts: Parts) -> None:
    """A log that takes no more, as after a cancellation from outside, must not hide the reason."""
    try:
        head = str(parts.store.last_head)
        parts.router.handle(c.Stop(at_ms=parts.now_ms(), cause="signal", head=head))
    except LogError as error:
        logger.error("the end of this run is not logged: %s", error)
    if parts.journal.failing is not None:
        logger.warning(
            "the event log cannot be written, trying for %d s more: free room on its disk now, and "
            "nothing is lost (%s)",
            parts.journal.flush_s,
            parts.journal.failing,
        )


async def _serve(
    parts: Parts, changes: RunningChanges, announce: Callable[[str, str], None]
) -> None:
    server = parts.settings.in_force.server
    limits, admin_limits = _limits(parts.settings.in_force)
    admin_stop = trio.Event()
    admin_tls = parts.tls if server.admin_tls else None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick, parts)
        nursery.start_soon(upkeep, parts)
        for task in _beside_requests(parts.desk):
            nursery.start_soon(task)
        nursery.start_soon(tell_refusals, parts.timings.refusals)
        nursery.start_soon(watch_loop_lag, parts.timings, time.perf_counter_ns, LOOP_LAG_EVERY_MS)
        await nursery.start(changes.discovery.run)
        await nursery.start(changes.rounds.run)
        admin = await nursery.start(
            partial(
                serve_http,
                cast("ASGIApp", admin_app(admin_desk(parts, changes))),
                [server.admin],
                admin_limits,
                shutdown=admin_stop,
                tls=admin_tls,
            )
        )
        _settle_process()
        door = Door(parts.desk)
        async with trio.open_nursery() as data_nursery:
            api = await data_nursery.start(
                partial(
                    serve_http,
                    proxy_app(parts.desk),
                    [server.listen],
                    limits,
                    shutdown=parts.shutdown,
                    drain=parts.drain,
                    door=door,
                    refusal_headers=door.refusal_headers,
                    refusal_body=refusal_body,
                    on_refusal=parts.timings.refusals.note,
                    tls=parts.tls,
                )
            )
            scheme = "https" if parts.tls else "http"
            where = _url(scheme, api[0])
            announce(where, _url("https" if admin_tls else "http", admin[0]))
            tell_supervisor(READY, f"STATUS=serving {where}")
        nursery.cancel_scope.cancel()


def _beside_requests(desk: Desk) -> Iterator[Callable[[], Awaitable[None]]]:
    """What the data path needs running beside it, for ever."""
    yield desk.watch.run
    yield desk.pump.run
    yield desk.bodies.run
    if isinstance(desk.access_log, AccessLog):
        yield desk.access_log.run
    yield desk.upstreams.keep_fresh


def _url(scheme: str, bound: tuple[str, int]) -> str:
    host, port = bound
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _limits(in_force: InForce) -> tuple[ServerLimits, ServerLimits]:
    """Of the data port and of the admin port."""
    data_connections, admin_connections = connections_within(file_limit())
    data = ServerLimits(
        body_bytes=in_force.server.max_body_bytes,
        body_setting="server.max_body_bytes",
        client_stall_ms=in_force.timeouts.client_stall_ms or NO_LIMIT_MS,
        graceful_timeout_s=in_force.server.graceful_timeout_ms / 1000,
        max_connections=data_connections,
    )
    admin = attrs.evolve(
        data,
        body_bytes=ADMIN_BODY_BYTES,
        body_setting="",
        graceful_timeout_s=1.0,
        max_connections=admin_connections,
    )
    return data, admin


def connections_within(descriptors: int) -> tuple[int, int]:
    """How many connections the data port and the admin port take, so that all fit together."""
    admin = min(max(descriptors // 16, ADMIN_CONNECTIONS_MIN), ADMIN_CONNECTIONS_MAX)
    left = descriptors - admin - DESCRIPTORS_BESIDE
    return min(CONNECTIONS_MAX, max(1, left // DESCRIPTORS_PER_CONNECTION)), admin


def _settle_process() -> None:
    """What was made until now stays: the collector need not look at it again and again. And the
    loop is not kept waiting by a thread beside it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 50)
    sys.setswitchinterval(TURN_S)
    keep_freed_memory()


def raise_file_limit() -> None:
    """Use what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def file_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
