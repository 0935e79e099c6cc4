"""Counters of what was logged: what /metrics shows, rebuilt from the log."""

from tests.listlog import refold
from tests.rig import BEGIN_MS, Rig


def test_requests_are_counted_by_their_end_and_orphans_as_unknown(rig: Rig) -> None:
    rig.live("a")
    rig.use()
    rig.finish(rig.go(), "client_gone")
    rig.go()
    rig.restart()
    assert rig.state.tally.requests == {
        ("m", "ok"): 1,
        ("m", "client_gone"): 1,
        ("m", "unknown"): 1,
    }


def test_a_retried_request_counts_once_as_a_request_and_once_as_a_retry(rig: Rig) -> None:
    rig.live("a", "b")
    flown = rig.go()
    rig.fail(flown, "fin", "replica")
    rig.retry(flown)
    tally = rig.state.tally
    assert tally.retries == {("fin",): 1}
    assert tally.dispatches == {("a", "load"): 1, ("b", "load"): 1}
    assert tally.requests == {}


def test_refusals_of_made_up_models_share_one_label(rig: Rig) -> None:
    rig.live("a")
    for number in range(50):
        rig.arrive(model=f"made-up-{number}")
    assert rig.state.tally.requests == {("other", "refused"): 50}


def test_spills_rebinds_ejects_and_scrapes_are_counted(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")
    rig.scrape(a=(5, 0), b=(0, 0))
    rig.use("s")
    rig.fail_scrape("a", "refused")
    tally = rig.state.tally
    assert tally.spills == {("session",): 1}
    assert tally.rebinds == {("force",): 1}
    assert tally.ejections == {("a", "refused"): 1}
    assert tally.scrapes == {("a", "ok"): 2, ("b", "ok"): 2, ("a", "failed"): 1}


def test_tokens_and_times_are_counted_where_known(rig: Rig) -> None:
    rig.live("a")
    rig.finish(rig.go(), prompt_tokens=1000, completion_tokens=50, ttfb_ms=70, duration_ms=900)
    rig.finish(rig.go(), "first_byte_timeout", duration_ms=600_001)
    tally = rig.state.tally
    assert tally.tokens == {("m", "prompt"): 1000, ("m", "completion"): 50}
    assert (sum(tally.ttfb["m"].counts), tally.ttfb["m"].sum_ms) == (1, 70)
    assert (sum(tally.duration["m"].counts), tally.duration["m"].counts[-1]) == (2, 1)


def test_traffic_looks_back_five_minutes(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use()
    rig.pass_s(200).same()
    rig.use()
    assert rig.state.tally.traffic(rig.at_ms) == {"a": 1, "b": 1}
    rig.pass_s(110)
    assert rig.state.tally.traffic(rig.at_ms) == {"b": 1}
    rig.pass_s(300)
    assert rig.state.tally.traffic(rig.at_ms) == {}


def test_the_imbalance_index_is_the_mean_of_a_minute_over_live_replicas(rig: Rig) -> None:
    rig.live("a", "b", "c")
    rig.eject("c")
    rig.pass_s(61).scrape(a=(8, 0), b=(2, 0), c=(90, 0))
    rig.pass_s(3).scrape(a=(2, 0), b=(2, 0))
    assert rig.state.tally.imbalance_m(rig.at_ms) == 3000
    rig.pass_s(61)
    assert rig.state.tally.imbalance_m(rig.at_ms) == 0


def test_a_busy_pool_beside_an_idle_one_is_no_imbalance(rig: Rig) -> None:
    rig.live("a", "b")
    rig.live("c", "d", models=("rag",))
    rig.pass_s(61).scrape(a=(8, 0), b=(7, 0), c=(0, 0), d=(0, 0))
    assert rig.state.tally.imbalance_m(rig.at_ms) == 1000


def test_nobody_live_is_no_imbalance(rig: Rig) -> None:
    rig.join("a")
    rig.scrape(a=rig.reading("a", 9, asleep=True))
    assert rig.state.tally.imbalance_m(rig.at_ms) == 0


def test_counters_survive_a_restart(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s", "p")
    before = repr(rig.state.tally)
    rig.restart()
    assert repr(rig.state.tally) == before


def test_samples_of_a_clock_that_was_ahead_are_forgotten(rig: Rig) -> None:
    rig.live("a", "b")
    rig.at_ms += 3_600_000
    rig.use()
    rig.scrape(a=(9, 0))
    rig.at_ms = BEGIN_MS + 60_000
    rig.restart()
    assert rig.state.tally.traffic(rig.at_ms) == {}
    rig.scrape(a=(0, 0), b=(0, 0))
    assert rig.state.tally.imbalance_m(rig.at_ms) == 0
    assert repr(refold(rig.log.entries).tally) == repr(rig.state.tally)
