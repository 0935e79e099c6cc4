"""Series of this process alone: timings and the log. They start at zero with it (METRICS.md)."""

from collections.abc import Mapping

from trioroute.observe.shapes import (
    Counter,
    Distribution,
    Distributions,
    Gauge,
    Histogram,
    Info,
    Series,
    seconds_of,
)
from trioroute.observe.timings import COARSE_NS, FINE_NS, Buckets, SourceView, TaskView

_LES = {bounds: seconds_of(bounds, 1_000_000_000) for bounds in (FINE_NS, COARSE_NS)}


def _spread(kept: Buckets) -> Distributions:
    found = Distribution(_LES[kept.bounds_ns], kept.counts, kept.sum_ns / 1_000_000_000)
    return [((), found)]


def _last_successes(
    sources: Mapping[str, SourceView | TaskView],
) -> list[tuple[tuple[str], float]]:
    return [
        ((name,), source.last_success_ms / 1000)
        for name, source in sources.items()
        if source.last_success_ms
    ]


UPKEEP: tuple[Series, ...] = (
    Counter(
        "trioroute_log_upkeep_runs",
        "Runs of the tasks beside the event log, by what came of them.",
        ("task", "result"),
        lambda s: [
            ((task, result), count)
            for task, done in s.timings.upkeep.items()
            for result, count in (("ok", done.ok), ("failed", done.failed))
        ],
    ),
    Counter(
        "trioroute_log_upkeep_bytes",
        "Bytes of segments that were archived, or unlinked by retention.",
        ("task",),
        lambda s: [
            ((task,), done.size_bytes)
            for task, done in s.timings.upkeep.items()
            if task != "snapshot"
        ],
    ),
    Gauge(
        "trioroute_log_upkeep_last_success_timestamp_seconds",
        "When a task beside the event log last succeeded; absent if never.",
        ("task",),
        lambda s: _last_successes(s.timings.upkeep),
        "seconds",
    ),
    Gauge(
        "trioroute_log_upkeep_waiting",
        "Closed segments that are not archived yet, or kept beyond the limits of retention.",
        ("task",),
        lambda s: [
            ((task,), done.waiting) for task, done in s.timings.upkeep.items() if task != "snapshot"
        ],
    ),
)
PROCESS: tuple[Series, ...] = (
    Histogram(
        "trioroute_decision_seconds",
        "Choosing a replica, offering it to the log and applying it.",
        (),
        lambda s: _spread(s.timings.decision),
    ),
    Histogram(
        "trioroute_router_overhead_seconds",
        "What a request spent in the router itself, waiting for nobody.",
        (),
        lambda s: _spread(s.timings.overhead),
    ),
    Histogram(
        "trioroute_scrape_duration_seconds",
        "Asking one replica for its metrics.",
        (),
        lambda s: _spread(s.timings.scrape),
    ),
    Histogram(
        "trioroute_loop_lag_seconds",
        "How late the event loop woke a sleeping task.",
        (),
        lambda s: _spread(s.timings.loop_lag),
    ),
    Histogram(
        "trioroute_log_commit_seconds",
        "One commit of the event log.",
        (),
        lambda s: _spread(s.timings.log_commit),
    ),
    Gauge(
        "trioroute_log_position",
        "Version of the last event offered to the log.",
        (),
        lambda s: [((), s.log.position)],
    ),
    Gauge(
        "trioroute_log_durable_position",
        "Version up to which the log is committed.",
        (),
        lambda s: [((), s.log.durable_position)],
    ),
    Gauge(
        "trioroute_log_bytes",
        "Size of the event log on disk.",
        (),
        lambda s: [((), s.log.bytes)],
        "bytes",
    ),
    Info(
        "trioroute_log_closed",
        "Where the last closed segment of the event log ends: SEQ:CHAIN for log verify --head.",
        ("head",),
        lambda s: [(s.log.closed_head,)] if s.log.closed_head is not None else [],
    ),
    *UPKEEP,
    Counter(
        "trioroute_responses_unlogged",
        "Responses whose decision was not durable when their first byte left.",
        (),
        lambda s: [((), s.timings.unlogged)],
    ),
    Counter(
        "trioroute_refused",
        "Requests that the router answered with an error of its own.",
        ("code", "key"),
        lambda s: list(s.timings.refusals.counts.items()),
    ),
    Counter(
        "trioroute_config_reloads",
        "Readings of the configuration while running, by what came of them.",
        ("result",),
        lambda s: [((result,), count) for result, count in s.timings.reloads.items()],
    ),
    Gauge(
        "trioroute_config_reload_successful",
        "0 after a reload that was rejected; what was in force before still is.",
        (),
        lambda s: [((), 0 if s.timings.reload_failed else 1)],
    ),
    Gauge(
        "trioroute_discovery_last_success_timestamp_seconds",
        "When a source of discovery last told its list; absent if never.",
        ("source",),
        lambda s: _last_successes(s.timings.discovery),
        "seconds",
    ),
    Gauge(
        "trioroute_discovery_replicas",
        "Replicas in the last list of a source of discovery.",
        ("source",),
        lambda s: [((name,), source.replicas) for name, source in s.timings.discovery.items()],
    ),
    Gauge(
        "trioroute_discovery_failing",
        "1 while a source of discovery cannot tell its list and the last known replicas stay.",
        ("source",),
        lambda s: [
            ((name,), int(bool(source.failing))) for name, source in s.timings.discovery.items()
        ],
    ),
    Info("trioroute_build", "The release that is running.", ("version",), lambda s: [(s.version,)]),
)
