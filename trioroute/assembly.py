"""The parts of a router and how they hang together, before anything runs.

store -> recover -> state -> router <- desk (data path)
                               ^------ rounds (scrapes)
"""

import logging
import math
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import attrs
import trio

import trioroute
from eventlog import LogError
from eventlog.journal import Journal
from eventlog.lost_end import lost_end
from eventlog.snapshots import Snapshots
from eventlog.sqlite import SegmentLimits, SqliteStore
from trioroute.clock import running_clock
from trioroute.counted import plural
from trioroute.events import InForce, Reading, Stopped
from trioroute.events.views import VIEWS
from trioroute.events.words import Cause, ChangedBy
from trioroute.last_loss import tell_unwritten
from trioroute.observe import HealthNotes, Timings
from trioroute.own_watch import watch_of
from trioroute.policy import RULES_VERSION
from trioroute.policy import commands as c
from trioroute.proxy.access_log import access_log_of
from trioroute.proxy.desk import Desk
from trioroute.proxy.serving.tls import Renewable
from trioroute.proxy.upstream.upstreams import Upstreams
from trioroute.recovery import Recovered, log_secret, recover
from trioroute.router import Router
from trioroute.scrape import Names, Rounds, ScrapeTarget
from trioroute.settings import (
    GenericMetrics,
    ServerCertificate,
    Settings,
    endpoint_named,
    read_certificate,
)
from trioroute.slow_start import SlowStart

logger = logging.getLogger("trioroute")

TOLD_BEHIND_MS = 1000
"""A clock that is set right by less is every machine's."""


@attrs.define
class Parts:
    """Everything of one running router. ``recovered`` is what its log told at the start."""

    settings: Settings
    store: SqliteStore
    journal: Journal
    router: Router
    desk: Desk
    timings: Timings
    directory: Path
    now_ms: Callable[[], int]
    recovered: Recovered
    certificate: ServerCertificate | None = None
    tls: Renewable | None = None
    """Speaks with ``certificate``'s context; renewed together by a reload."""
    ending: bool = False
    """A signal to end came: not ready from then on."""
    drain: trio.Event = attrs.field(factory=trio.Event)
    """The settle time is over: connections close after their response."""
    shutdown: trio.Event = attrs.field(factory=trio.Event)

    def tell(self, command: c.Command) -> None:
        """Handle what no client waits for. A full log drops it: the next round tells again."""
        with suppress(LogError):
            self.router.handle(command)


def open_log(in_force: InForce) -> SqliteStore:
    """Own the log directory. Raises LogOwned with the pid, NewerLog, LogDamaged, StoreFailed."""
    log = in_force.log
    directory, limits = Path(log.path), segment_limits(in_force)
    lost = lost_end(directory, Stopped.__name__)  # owning it wipes the evidence
    store = SqliteStore.open(directory, sync=log.sync, views=VIEWS, limits=limits)
    if lost is not None:
        told = lost.words(store.last_head.seq)
        logger.error("%s; this run gives the numbers of such rows again", told)
    return store


def segment_limits(in_force: InForce) -> SegmentLimits:
    """When a file of the log closes."""
    return SegmentLimits(in_force.log.segment_bytes, in_force.log.segment_age_ms)


def assemble(settings: Settings, store: SqliteStore, environ: Mapping[str, str]) -> Parts:
    """Fold the log and put the parts together; nothing runs yet."""
    if store.lost_tail is not None:
        logger.error("%s", store.lost_tail)
    in_force = settings.in_force
    directory = Path(in_force.log.path)
    secret = log_secret(directory)
    stream = f"router/{in_force.server.name}"
    recovered = recover(store, stream, Snapshots(directory), logger.warning, SlowStart(directory))
    state = recovered.state
    timings = Timings()
    journal = Journal(
        store,
        stream,
        max_entries=in_force.log.buffer_entries,
        max_bytes=in_force.log.buffer_bytes,
        on_commit=timings.log_committed,
    )
    router = Router(state, journal, log_healthy=partial(_takes_again, journal))
    router.listeners.append(HealthNotes(state, in_force.log.path).listen)
    router.listeners.append(
        lambda told: timings.exemplars.note(told.first, told.events, state.at_ms)
    )
    now_ms = running_clock()
    draw = random.Random().getrandbits  # seeded by the system; names and ties need no secret
    desk = Desk(
        router=router,
        journal=journal,
        now_ms=now_ms,
        draw=partial(draw, 63),
        secret=secret,
        upstreams=Upstreams(
            connect_timeout_s(settings.in_force), authorizations(settings, environ)
        ),
        watch=watch_of(router, now_ms),
        measure_decision=timings.decision.observe_ns,
        count_unlogged=timings.response_unlogged,
        count_refusal=timings.refusals.note,
        measure_overhead=timings.overhead.observe_ns,
    )
    desk.keys.renew(settings.api_keys)
    desk.access_log = access_log_of(in_force.server.access_log)
    if endpoint_named(environ):
        from trioroute.tracing import otlp_tracing  # here: most routers pay nothing for it

        desk.spans = otlp_tracing(router, in_force.server.name, trioroute.__version__)
    parts = Parts(settings, store, journal, router, desk, timings, directory, now_ms, recovered)
    parts.certificate = certificate_of(settings)
    parts.tls = None if parts.certificate is None else Renewable(parts.certificate.context)
    return parts


def certificate_of(settings: Settings) -> ServerCertificate | None:
    """Of the data port. Reads files: blocks. Raises BadCertificate."""
    server = settings.in_force.server
    return read_certificate(server.tls_cert, server.tls_key) if server.tls_cert else None


def connect_timeout_s(in_force: InForce) -> float:
    return in_force.timeouts.connect_ms / 1000 or math.inf


def authorizations(settings: Settings, environ: Mapping[str, str]) -> dict[str, bytes]:
    """The ``authorization`` values of replicas with a key of their own. Never shown."""
    return {
        replica.name: b"Bearer " + environ[replica.api_key_env].encode("ascii")
        for replica in settings.replicas
        if replica.api_key_env
    }


def _takes_again(journal: Journal) -> bool:
    """Whether a log that lost events has room again: half of its buffer, so that it stays so."""
    entries, size = journal.bounds
    half_empty = 2 * journal.depth <= entries and 2 * journal.pending_bytes <= size
    return journal.failing is None and half_empty


def begin(parts: Parts) -> None:
    """Say in the log that a run starts, what is in force, and who belongs to the fleet."""
    router, now_ms = parts.router, parts.now_ms
    in_force = parts.settings.in_force
    before_ms = router.state.at_ms
    ends_lost = tell_unwritten(router, parts.store.unwritten_before)
    begun_ms = now_ms()
    router.handle(
        c.Start(
            at_ms=begun_ms,
            ends_lost=ends_lost,
            router=in_force.server.name,
            release=trioroute.__version__,
            rules=RULES_VERSION,
        )
    )
    if before_ms - begun_ms >= TOLD_BEHIND_MS:
        logger.warning(
            "the clock is %d s behind the last event of the log: it was ahead then, or is wrong "
            "now; what was left of cooldowns is counted on from now",
            (before_ms - begun_ms) // 1000,
        )
    if parts.recovered.lost:
        lost = parts.recovered.lost
        logger.error(
            "the log begins after %s that no snapshot of this release tells of: pins, "
            "cooldowns and counters before it are unknown, the rest is restated in the log",
            plural(lost, "event"),
        )
        router.handle(c.Restate(at_ms=now_ms(), lost=lost, from_ms=0, to_ms=now_ms()))
    router.handle(reconfigure(parts.settings, now_ms(), by="start"))


def reconfigure(settings: Settings, at_ms: int, *, by: ChangedBy, why: str = "") -> c.Reconfigure:
    """The command that makes ``settings`` true."""
    return c.Reconfigure(
        at_ms=at_ms,
        settings=settings.in_force,
        replicas=tuple(
            c.Join(
                at_ms=at_ms,
                replica=replica.name,
                url=replica.url,
                models=replica.models,
                engine=replica.engine,
            )
            for replica in settings.replicas
        ),
        digest=settings.digest,
        by=by,
        why=why,
    )


def _names(told: GenericMetrics) -> Names:
    def one(name: str) -> tuple[str, ...]:
        return (name,) if name else ()

    return Names(
        path=told.path,
        running=one(told.running),
        waiting=one(told.waiting),
        kv=one(told.kv),
        tokens=one(told.tokens),
    )


def rounds_of(parts: Parts) -> Rounds:
    """The scraper; what it finds becomes commands."""
    router, now_ms = parts.router, parts.now_ms
    scrape = parts.settings.in_force.scrape
    upstreams = parts.desk.upstreams

    def targets() -> list[ScrapeTarget]:
        keys = upstreams.authorizations
        generic = _names(parts.settings.generic)
        return [
            ScrapeTarget(
                name=name,
                url=replica.url,
                models=replica.told_models,
                engine=replica.engine,
                authorization=keys[name].decode("ascii") if name in keys else None,
                generic=generic if replica.engine == "generic" else None,
            )
            for name, replica in router.state.fleet.replicas.items()
        ]

    def in_flight(name: str) -> int:
        known = router.state.load.replicas.get(name)
        return known.own if known is not None else 0

    def known_models(name: str) -> tuple[str, ...]:
        known = router.state.fleet.replicas.get(name)
        return known.models if known is not None else ()

    def on_readings(readings: Mapping[str, Reading]) -> None:
        parts.tell(c.Observe(at_ms=now_ms(), readings=dict(readings)))

    def on_failure(name: str, cause: Cause, status: int | None) -> None:
        parts.tell(c.ObserveFailure(at_ms=now_ms(), replica=name, cause=cause, status=status))

    def on_scrape(_name: str, _result: str, seconds: float) -> None:
        parts.timings.scrape.observe_s(seconds)

    return Rounds(
        interval_ms=scrape.interval_ms,
        timeout_ms=scrape.timeout_ms,
        targets=targets,
        in_flight=in_flight,
        known_models=known_models,
        on_readings=on_readings,
        on_failure=on_failure,
        on_scrape=on_scrape,
        random=random.Random(),
    )
