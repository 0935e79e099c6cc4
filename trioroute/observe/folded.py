"""Series folded from the log: they survive a restart and say what the log says (METRICS.md)."""

from collections.abc import Iterable, Mapping
from typing import get_args

from prometheus_client.core import Exemplar

from trioroute.events.words import PinKind, Reason, RebindCause, ReplicaState
from trioroute.observe.exemplars import ByModel, Last, merged
from trioroute.observe.rows import Row, scores, share
from trioroute.observe.shapes import (
    Counter,
    Distribution,
    Distributions,
    Gauge,
    Histogram,
    Scalars,
    Series,
    seconds_of,
)
from trioroute.observe.sight import Sight
from trioroute.projections.tally import BOUNDS_MS
from trioroute.projections.tally import Counter as Counted
from trioroute.projections.tally import Histogram as HistogramMs

_LES = seconds_of(BOUNDS_MS, 1000)


def _by_model(sight: Sight, counted: Counted) -> Scalars:
    """The first label is a model: those without a series of their own are summed up."""
    sums: dict[tuple[str, ...], float] = {}
    for (model, *rest), value in counted.items():
        labels = (sight.model(model), *rest)
        sums[labels] = sums.get(labels, 0) + value
    return sums.items()


def _by_replica(sight: Sight, counted: Counted, *start: str) -> Scalars:
    """The first label is a replica: only those of the fleet, with ``start`` words from zero on.

    A replica that left takes its series along; under its old name it goes on where it was.
    """
    fleet = sight.state.fleet.replicas
    sums: dict[tuple[str, ...], float] = {(name, word): 0 for name in fleet for word in start}
    return (sums | {labels: n for labels, n in counted.items() if labels[0] in fleet}).items()


def _by_hand(ejections: Counted) -> Counted:
    """On the wire nothing happened to a replica that somebody ejected, so it has no cause there."""
    return {(name, "by_hand" if why == "none" else why): n for (name, why), n in ejections.items()}


def _by_word(counted: Counted, *start: str) -> Scalars:
    """A closed vocabulary, ``start`` from zero on."""
    return ({(word,): 0 for word in start} | counted).items()


def _spread(sight: Sight, kept: Mapping[str, HistogramMs], lasts: ByModel) -> Distributions:
    sums: dict[str, tuple[list[int], int]] = {}
    shared: dict[str, list[list[Last | None]]] = {}
    for model, one in kept.items():
        label = sight.model(model)
        if model in lasts:
            shared.setdefault(label, []).append(lasts[model])
        counts, total_ms = sums.get(label, ([0] * len(one.counts), 0))
        added = [a + b for a, b in zip(counts, one.counts, strict=True)]
        sums[label] = added, total_ms + one.sum_ms
    for label, (counts, total_ms) in sums.items():
        told = [_exemplar(sight, last) for last in merged(shared.get(label, ()))]
        yield (label,), Distribution(_LES, counts, total_ms / 1000, told)


def _exemplar(sight: Sight, last: Last | None) -> Exemplar | None:
    if last is None:
        return None
    number, value_ms, at_ms = last
    decision = f"{sight.state.router}/{number}"
    return Exemplar({"decision": decision}, value_ms / 1000, at_ms / 1000)


def _states(sight: Sight) -> Scalars:
    for row in sight.rows:
        for word in get_args(ReplicaState):
            yield (row.name, word), int(row.standing == word)


def _score(sight: Sight) -> Scalars:
    return (((name,), score) for name, score in scores(sight.rows).items())


def _is_stalled(sight: Sight, row: Row) -> bool:
    return row.health.stalled(sight.at_ms, sight.state.settings)


def _in_flight(sight: Sight) -> Scalars:
    """Also of replicas that left while something was running on them."""
    return (((name,), load.own) for name, load in sight.state.load.replicas.items())


def _last_good(sight: Sight) -> Scalars:
    for row in sight.rows:
        if row.health.last_good_ms:
            yield (row.name,), row.health.last_good_ms / 1000


def _pins(sight: Sight) -> Scalars:
    for kind in get_args(PinKind):
        yield (kind,), len(sight.state.pins.table(kind))


def _shares(sight: Sight) -> Scalars:
    return (((name,), part) for name, part in share(sight.state, sight.at_ms).items())


def _rows(rows: Iterable[Row]) -> Iterable[tuple[tuple[str, ...], Row]]:
    return (((row.name,), row) for row in rows)


_M = ("model",)
_R = ("replica",)
REQUESTS: tuple[Series, ...] = (
    Counter(
        "trioroute_requests",
        "Requests that ended, by outcome; refused = never dispatched, or not again.",
        ("model", "outcome"),
        lambda s: _by_model(s, s.state.tally.requests),
    ),
    Counter(
        "trioroute_dispatches",
        "Attempts sent to a replica, by the reason it was chosen.",
        ("replica", "reason"),
        lambda s: _by_replica(s, s.state.tally.dispatches, *get_args(Reason)),
    ),
    Counter(
        "trioroute_retries",
        "Attempts that ended before a byte reached the client, by what happened on the wire.",
        ("cause",),
        lambda s: _by_word(s.state.tally.retries),
    ),
    Counter(
        "trioroute_tokens",
        "Tokens that replicas reported, by kind (prompt, completion).",
        ("model", "kind"),
        lambda s: _by_model(s, s.state.tally.tokens),
    ),
    Histogram(
        "trioroute_time_to_first_byte_seconds",
        "From a request's dispatch to the first byte of its response.",
        _M,
        lambda s: _spread(s, s.state.tally.ttfb, s.timings.exemplars.ttfb),
    ),
    Histogram(
        "trioroute_request_duration_seconds",
        "From a request's dispatch to the end of its response.",
        _M,
        lambda s: _spread(s, s.state.tally.duration, s.timings.exemplars.duration),
    ),
    Counter(
        "trioroute_spills",
        "Requests that could not go to their pin's replica.",
        ("kind",),
        lambda s: _by_word(s.state.tally.spills, *get_args(PinKind)),
    ),
    Counter(
        "trioroute_rebinds",
        "Pins that moved to another replica.",
        ("cause",),
        lambda s: _by_word(s.state.tally.rebinds, *get_args(RebindCause)),
    ),
    Gauge("trioroute_pins", "Pins held.", ("kind",), _pins),
    Gauge(
        "trioroute_traffic_share",
        "Part of the dispatches of the last 5 minutes, 0 to 1.",
        _R,
        _shares,
    ),
    Gauge(
        "trioroute_imbalance_index",
        "Most minus least effective_running of a pool's LIVE replicas, the largest of all pools,"
        " mean of the last minute.",
        (),
        lambda s: [((), s.state.tally.imbalance_m(s.at_ms) / 1000)],
    ),
)

REPLICAS: tuple[Series, ...] = (
    Gauge(
        "trioroute_replica_state",
        "1 for the state the replica is in, 0 for the others.",
        ("replica", "state"),
        _states,
    ),
    Gauge(
        "trioroute_replica_effective_running",
        "Requests running there, or the weight in flight if that is more.",
        _R,
        lambda s: ((n, row.measured.effective_running_m / 1000) for n, row in _rows(s.rows)),
    ),
    Gauge(
        "trioroute_replica_effective_waiting",
        "Requests waiting there, carried forward from the last reading.",
        _R,
        lambda s: ((n, row.measured.effective_waiting_m / 1000) for n, row in _rows(s.rows)),
    ),
    Gauge(
        "trioroute_replica_in_flight",
        "Requests of this router on the replica.",
        _R,
        _in_flight,
    ),
    Gauge(
        "trioroute_replica_wlc_in_flight",
        "Their weight: estimated tokens over wlc.unit_tokens.",
        _R,
        lambda s: (((n,), load.wlc_m / 1000) for n, load in s.state.load.replicas.items()),
    ),
    Gauge(
        "trioroute_replica_kv_usage_ratio",
        "Share of KV cache blocks in use by the last reading; absent while unknown.",
        _R,
        lambda s: ((n, row.kv) for n, row in _rows(s.rows) if row.kv is not None),
        "ratio",
    ),
    Gauge(
        "trioroute_replica_stalled",
        "1 if requests run there but no tokens come out of it, else 0.",
        _R,
        lambda s: ((n, int(_is_stalled(s, row))) for n, row in _rows(s.rows)),
    ),
    Gauge(
        "trioroute_replica_score",
        "Dashboard only, never part of a choice: 1 - 0.5*load - 0.3*queue - 0.2*kv, with load ="
        " effective_running over the largest of the fleet, queue = waiting over present requests,"
        " kv = kv_usage_ratio (0 if unknown); 0 unless LIVE or PROBING.",
        _R,
        _score,
    ),
    Gauge(
        "trioroute_replica_cooldown_seconds",
        "How long an ejected replica stays out at least.",
        _R,
        lambda s: ((n, row.cooldown_ms(s.at_ms) / 1000) for n, row in _rows(s.rows)),
        "seconds",
    ),
    Counter(
        "trioroute_ejections",
        "Times a replica was taken out of traffic.",
        ("replica", "cause"),
        lambda s: _by_replica(s, _by_hand(s.state.tally.ejections)),
    ),
    Counter(
        "trioroute_scrapes",
        "Scrapes by result (ok, failed).",
        ("replica", "result"),
        lambda s: _by_replica(s, s.state.tally.scrapes, "ok", "failed"),
    ),
    Gauge(
        "trioroute_last_good_scrape_timestamp_seconds",
        "When the replica last answered a scrape; absent if never.",
        _R,
        _last_good,
        "seconds",
    ),
)
