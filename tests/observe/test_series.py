"""/metrics: the names and labels of METRICS.md, their values and their bounds."""

from typing import get_args

import pytest

from tests.observe.reading import OPENMETRICS, busy_rig, families, samples, value
from tests.observe.rig import MODEL, T0_MS, Rig, reading
from trioroute.events.words import ReplicaState
from trioroute.observe.rows import MODELS_SHOWN
from trioroute.policy.commands import Eject, Leave, ObserveFailure, Refuse

STATES: tuple[str, ...] = get_args(ReplicaState)
COUNTERS = {
    "requests": {"model", "outcome"},
    "dispatches": {"replica", "reason"},
    "spills": {"kind"},
    "rebinds": {"cause"},
    "ejections": {"replica", "cause"},
    "scrapes": {"replica", "result"},
    "retries": {"cause"},
    "tokens": {"model", "kind"},
    "responses_unlogged": set(),
    "config_reloads": {"result"},
    "refused": {"code", "key"},
    "log_upkeep_runs": {"task", "result"},
    "log_upkeep_bytes": {"task"},
}
GAUGES = {
    "pins": {"kind"},
    "replica_state": {"replica", "state"},
    "replica_effective_running": {"replica"},
    "replica_effective_waiting": {"replica"},
    "replica_in_flight": {"replica"},
    "replica_wlc_in_flight": {"replica"},
    "replica_kv_usage_ratio": {"replica"},
    "replica_stalled": {"replica"},
    "replica_score": {"replica"},
    "replica_cooldown_seconds": {"replica"},
    "last_good_scrape_timestamp_seconds": {"replica"},
    "traffic_share": {"replica"},
    "imbalance_index": set(),
    "pool_replicas": {"model"},
    "pool_routable_replicas": {"model"},
    "pool_imbalance": {"model"},
    "pool_in_flight": {"model"},
    "pool_wlc_in_flight": {"model"},
    "pool_largest_share": {"model"},
    "log_position": set(),
    "log_durable_position": set(),
    "log_bytes": set(),
    "config_reload_successful": set(),
    "discovery_last_success_timestamp_seconds": {"source"},
    "discovery_replicas": {"source"},
    "discovery_failing": {"source"},
    "log_upkeep_last_success_timestamp_seconds": {"task"},
    "log_upkeep_waiting": {"task"},
}
HISTOGRAMS = {
    "time_to_first_byte_seconds": {"model"},
    "request_duration_seconds": {"model"},
    "decision_seconds": set(),
    "router_overhead_seconds": set(),
    "scrape_duration_seconds": set(),
    "log_commit_seconds": set(),
    "loop_lag_seconds": set(),
}


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
async def test_every_series_of_the_interface_is_there_with_its_labels(accept: str) -> None:
    found = await families(busy_rig(), accept)
    seen = {f.name: (f.type, {frozenset(s.labels) - {"le"} for s in f.samples}) for f in found}
    build = seen.pop("trioroute_build" if accept else "trioroute_build_info")
    closed = seen.pop("trioroute_log_closed" if accept else "trioroute_log_closed_info")
    assert closed[1] == set(), "no segment is closed"
    assert build == ("info" if accept else "gauge", {frozenset({"version"})})
    wanted = {
        f"trioroute_{name}": (kind, {frozenset(labels)})
        for kind, table in (("counter", COUNTERS), ("gauge", GAUGES), ("histogram", HISTOGRAMS))
        for name, labels in table.items()
    }
    assert seen == wanted


async def test_both_formats_say_the_same() -> None:
    rig = busy_rig()
    assert await samples(rig) == await samples(rig, OPENMETRICS)


async def test_an_eject_by_hand_has_a_cause_of_its_own() -> None:
    rig = Rig()
    rig.live("a", "b")
    rig.handle(Eject, replica="a", by="admin", why="new driver")
    read = await samples(rig)
    assert value(read, "ejections_total", replica="a", cause="by_hand") == 1
    assert 'cause="none"' not in str(read)


async def test_counters_are_what_happened() -> None:
    read = await samples(busy_rig())
    assert value(read, "requests_total", model=MODEL, outcome="ok") == 1
    assert value(read, "requests_total", model=MODEL, outcome="refused") == 1
    assert value(read, "dispatches_total", replica="a", reason="load") == 2
    assert value(read, "dispatches_total", replica="b", reason="load") == 1
    assert value(read, "dispatches_total", replica="b", reason="affinity:session") == 0
    assert value(read, "rebinds_total", cause="draining") == 1
    assert value(read, "rebinds_total", cause="force") == 0
    assert value(read, "spills_total", kind="session") == 0
    assert value(read, "retries_total", cause="refused") == 1
    assert value(read, "ejections_total", replica="b", cause="refused") == 1
    assert value(read, "scrapes_total", replica="a", result="ok") == 2
    assert value(read, "scrapes_total", replica="a", result="failed") == 0
    assert value(read, "tokens_total", model=MODEL, kind="prompt") == 1000
    assert value(read, "tokens_total", model=MODEL, kind="completion") == 50


async def test_durations_are_in_seconds_and_buckets_add_up() -> None:
    read = await samples(busy_rig())
    name = "time_to_first_byte_seconds"
    assert value(read, f"{name}_bucket", model=MODEL, le="0.025") == 0
    assert value(read, f"{name}_bucket", model=MODEL, le="0.05") == 1
    assert value(read, f"{name}_bucket", model=MODEL, le="600.0") == 1
    assert value(read, f"{name}_bucket", model=MODEL, le="+Inf") == 1
    assert value(read, f"{name}_sum", model=MODEL) == 0.04
    assert value(read, "request_duration_seconds_sum", model=MODEL) == 0.7
    assert value(read, "request_duration_seconds_count", model=MODEL) == 1


async def test_a_replica_is_in_one_state_and_an_ejected_one_counts_down() -> None:
    rig = busy_rig()
    rig.now_ms += 10_000
    read = await samples(rig)
    states = {s: value(read, "replica_state", replica="b", state=s) for s in STATES}
    assert states == {"JOINING": 0, "LIVE": 0, "EJECTED": 1, "PROBING": 0, "DRAINING": 0}
    assert value(read, "replica_state", replica="a", state="LIVE") == 1
    assert value(read, "replica_cooldown_seconds", replica="b") == 20
    assert value(read, "replica_cooldown_seconds", replica="a") == 0
    assert value(read, "last_good_scrape_timestamp_seconds", replica="a") == T0_MS / 1000


async def test_loads_shares_and_pins_are_gauges_of_now() -> None:
    read = await samples(busy_rig())
    assert value(read, "replica_in_flight", replica="a") == 1
    assert value(read, "replica_wlc_in_flight", replica="a") == 1
    assert value(read, "replica_effective_running", replica="a") == 1
    assert value(read, "replica_effective_waiting", replica="a") == 0
    assert value(read, "replica_kv_usage_ratio", replica="a") == 0.25
    assert value(read, "traffic_share", replica="a") == pytest.approx(2 / 3)
    assert value(read, "traffic_share", replica="b") == pytest.approx(1 / 3)
    assert value(read, "pins", kind="session") == 1
    assert value(read, "pins", kind="prefix") == 1


async def test_traffic_share_forgets_after_five_minutes() -> None:
    rig = busy_rig()
    rig.now_ms += 301_000
    assert value(await samples(rig), "traffic_share", replica="a") == 0


async def test_what_was_never_read_is_absent_instead_of_zero() -> None:
    rig = Rig()
    rig.join("new")
    read = await samples(rig)
    names = {name for name, labels in read if ("replica", "new") in labels}
    assert "trioroute_replica_state" in names
    assert "trioroute_replica_kv_usage_ratio" not in names
    assert "trioroute_last_good_scrape_timestamp_seconds" not in names


async def test_the_score_follows_its_documented_formula() -> None:
    rig = Rig()
    rig.live("a", "b", "c")
    rig.scrape(a=reading(4, 0, kv_m=500), b=reading(2, 2), c=reading(0, 0))
    rig.handle(ObserveFailure, replica="c", cause="refused")
    read = await samples(rig)
    assert value(read, "replica_score", replica="a") == pytest.approx(1 - 0.5 - 0.2 * 0.5)
    assert value(read, "replica_score", replica="b") == pytest.approx(1 - 0.5 * 0.5 - 0.3 * 0.5)
    assert value(read, "replica_score", replica="c") == 0


async def test_process_series_come_from_timings_and_log() -> None:
    rig = busy_rig()
    rig.timings.decision.observe_ns(20_000)
    rig.timings.overhead.observe_ns(300_000)
    rig.timings.scrape.observe_s(0.004)
    rig.timings.log_committed(7, 0.002)
    rig.timings.loop_lag.observe_ns(20_000_000_000)
    rig.timings.response_unlogged()
    rig.timings.refusals.note("rate_limited", "team-a")
    read = await samples(rig)
    assert value(read, "decision_seconds_bucket", le="1e-05") == 0
    assert value(read, "decision_seconds_bucket", le="2.5e-05") == 1
    assert value(read, "router_overhead_seconds_sum") == pytest.approx(0.0003)
    assert value(read, "scrape_duration_seconds_sum") == pytest.approx(0.004)
    assert value(read, "log_commit_seconds_bucket", le="0.0025") == 1
    assert value(read, "loop_lag_seconds_bucket", le="10.0") == 0
    assert value(read, "loop_lag_seconds_count") == 1
    assert value(read, "responses_unlogged_total") == 1
    assert value(read, "refused_total", code="rate_limited", key="team-a") == 1
    assert value(read, "refused_total", code="log_stalled", key="") == 0
    assert value(read, "log_position") == rig.state.position
    assert value(read, "log_durable_position") == rig.state.position - 3
    assert value(read, "log_bytes") == 4096
    assert value(read, "build_info", version="1.2.3") == 1
    assert not any(name == "trioroute_log_closed_info" for name, _ in read)


async def test_the_head_of_the_last_closed_segment_is_one_series() -> None:
    rig = busy_rig()
    rig.log.closed_head = "5:ffeeddccbbaa99887766554433221100"
    read = await samples(rig)
    assert value(read, "log_closed_info", head=rig.log.closed_head) == 1


async def test_ten_thousand_made_up_models_add_one_series() -> None:
    rig = busy_rig()
    before = set(await samples(rig))
    for number in range(10_000):
        model = f'odd "{number}"\n\\ü'
        rig.handle(Refuse, request_id="q", code="model_not_found", model=model)
    after = await samples(rig)
    assert set(after) - before == {
        ("trioroute_requests_total", frozenset({("model", "other"), ("outcome", "refused")}))
    }
    assert value(after, "requests_total", model="other", outcome="refused") == 10_000


async def test_models_beyond_the_bound_are_summed_up_as_other() -> None:
    rig = Rig()
    extra = 7
    models = tuple(f"adapter-{number:04}" for number in range(MODELS_SHOWN + extra))
    rig.live("a", models=models)
    for model in models:
        rig.finish(rig.arrive(model))
    read = await samples(rig, OPENMETRICS)
    named = [labels for name, labels in read if name == "trioroute_requests_total"]
    assert len(named) == MODELS_SHOWN + 1
    assert value(read, "requests_total", model="other", outcome="ok") == extra
    assert value(read, "request_duration_seconds_count", model="other") == extra
    assert value(read, "tokens_total", model="other", kind="completion") == 50 * extra


async def test_label_values_with_odd_characters_come_back_whole() -> None:
    rig = Rig()
    odd = 'a "quoted"\nmodel \\ ü'
    rig.live("a", models=(odd,))
    rig.finish(rig.arrive(odd))
    for accept in ("", OPENMETRICS):
        assert value(await samples(rig, accept), "requests_total", model=odd, outcome="ok") == 1


async def test_a_replica_that_left_takes_its_series_along_but_not_what_runs_on_it() -> None:
    rig = busy_rig()
    rig.handle(Leave, replica="a")
    read = await samples(rig)
    left = {name for name, labels in read if ("replica", "a") in labels}
    assert left == {"trioroute_replica_in_flight", "trioroute_replica_wlc_in_flight"}


async def test_a_clock_behind_the_log_judges_by_the_log() -> None:
    rig = busy_rig()
    rig.now_ms -= 60_000
    assert value(await samples(rig), "replica_cooldown_seconds", replica="b") == 30
