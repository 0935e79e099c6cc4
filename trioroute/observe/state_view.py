"""``GET /state``: the fleet as one JSON object, in the shape of HTTP.md."""

from collections.abc import Mapping, Sequence
from typing import Any

from trioroute.observe.pools import Pool, pools
from trioroute.observe.rows import Row, rows, scores, share
from trioroute.observe.timings import LogView, SourceView
from trioroute.projections import State


def view(
    state: State,
    now_ms: int,
    log: LogView,
    *,
    ready: tuple[bool, str] = (True, ""),
    with_share: bool = False,
    with_score: bool = False,
    restart_needed: Sequence[str] = (),
    discovery: Mapping[str, SourceView] | None = None,
) -> dict[str, Any]:
    """``ready`` is what ``/readyz`` tells. Loads are in requests, ages and cooldowns in seconds;
    None is unknown, never zero.

    For eyes, ``with_share`` adds ``traffic_share`` (0 to 1, five minutes) to each replica and
    ``with_score`` its composite ``score``.
    """
    at_ms = max(now_ms, state.at_ms)
    seen = rows(state, at_ms)
    replicas = [_replica(state, row, at_ms) for row in seen]
    if with_share:
        shares = share(state, at_ms)
        for replica in replicas:
            replica["traffic_share"] = shares[replica["name"]]
    if with_score:
        told = scores(seen)
        for replica in replicas:
            replica["score"] = told[replica["name"]]
    return {
        "at_ms": at_ms,
        "router": state.router,
        "position": log.position,
        "durable_position": log.durable_position,
        "log_head": log.head,
        "log_failing": log.failing,
        "ready": ready[0],
        "reason": ready[1],
        "replicas": replicas,
        "pools": [_pool(pool) for pool in pools(state, seen, at_ms)],
        "pins": {"session": len(state.pins.session), "prefix": len(state.pins.prefix)},
        "config": {
            "digest": state.file_digest,
            "applied_at_ms": state.configured_ms,
            "restart_needed": list(restart_needed),
        },
        "discovery": {name: _source(source, at_ms) for name, source in (discovery or {}).items()},
        "imbalance_index": state.tally.imbalance_m(at_ms) / 1000,
    }


def _pool(pool: Pool) -> dict[str, Any]:
    return {
        "model": pool.model,
        "replicas": pool.replicas,
        "routable": pool.routable,
        "imbalance": pool.imbalance_m / 1000,
    }


def _source(source: SourceView, at_ms: int) -> dict[str, Any]:
    age_ms = at_ms - source.last_success_ms if source.last_success_ms else None
    return {
        "last_success_age_s": None if age_ms is None else max(0, age_ms) / 1000,
        "listed": source.replicas,
        "failing": source.failing,
    }


def _replica(state: State, row: Row, at_ms: int) -> dict[str, Any]:
    """``running`` and ``waiting`` are the last reading's, however old: its age stands beside.

    ``eject_count`` is n of RULES 6.7 as it counts now, so 0 again after 6.8's time LIVE.
    """
    load, measured, health = row.load, row.measured, row.health
    known = state.fleet.replicas[row.name]
    was_read = load.read_at_ms > 0
    age_ms = at_ms - health.last_good_ms if health.last_good_ms else None
    return {
        "name": row.name,
        "url": known.url,
        "models": list(known.models),
        "source": known.source,
        "state": row.standing,
        "running": load.running if was_read else None,
        "waiting": load.waiting if was_read else None,
        "in_flight": load.own,
        "wlc_in_flight": load.wlc_m / 1000,
        "effective_running": measured.effective_running_m / 1000,
        "effective_waiting": measured.effective_waiting_m / 1000,
        "kv_usage": row.kv,
        "last_good_scrape_age_s": None if age_ms is None else age_ms / 1000,
        "eject_count": health.streak(at_ms, state.settings),
        "cooldown_s": row.cooldown_ms(at_ms) / 1000,
        "stalled": health.stalled(at_ms, state.settings),
    }
