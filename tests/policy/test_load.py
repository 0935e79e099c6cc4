"""RULES 3: weights, the carried-forward reading, staleness, and the reservation."""

import pytest

from tests.rig import MakeRig, Rig
from trioroute import events as e
from trioroute.events.words import Outcome


@pytest.mark.parametrize(
    ("running", "waiting", "own_at_scrape", "sent", "ended", "expect_running", "expect_waiting"),
    [
        # as scraped: nothing sent, nothing ended since
        (0, 0, 0, 0, 0, 0, 0),
        (5, 0, 0, 0, 0, 5, 0),
        (5, 3, 0, 0, 0, 5, 3),
        (3, 0, 3, 0, 0, 3, 0),
        # sent since: own requests run unless there was a queue already
        (3, 0, 3, 2, 0, 5, 0),
        (0, 0, 0, 4, 0, 4, 0),
        (5, 1, 2, 2, 0, 5, 3),
        # ended since: they are gone from the reading
        (3, 0, 3, 0, 2, 1, 0),
        (4, 2, 4, 0, 3, 3, 0),
        (4, 2, 4, 0, 1, 4, 1),
        # foreign requests stay
        (6, 0, 2, 0, 2, 4, 0),
        (6, 0, 2, 1, 2, 5, 0),
        # the reading was taken before the engine saw the requests: foreign is not negative
        (0, 0, 3, 0, 0, 3, 0),
        (1, 0, 3, 0, 3, 0, 0),
    ],
)
def test_rule_3_a_reading_is_carried_forward(
    rig: Rig,
    running: int,
    waiting: int,
    own_at_scrape: int,
    sent: int,
    ended: int,
    expect_running: int,
    expect_waiting: int,
) -> None:
    rig.live("a")
    before = [rig.go(tokens=1) for _ in range(own_at_scrape)]
    rig.scrape(a=(running, waiting))
    for _ in range(sent):
        rig.go(tokens=1)
    for flown in before[:ended]:
        rig.finish(flown)
    load = rig.state.measure("a", rig.at_ms)
    assert (load.running_m, load.waiting_m) == (expect_running * 1000, expect_waiting * 1000)
    assert load.effective_waiting_m == expect_waiting * 1000


@pytest.mark.parametrize("tokens", [1, 1000, 7500, 100_000])
def test_rule_3_weight_is_tokens_over_the_unit(rig: Rig, tokens: int) -> None:
    rig.live("a")
    assert rig.go(tokens=tokens).event.weight_m == tokens
    assert rig.state.load.of("a").wlc_m == tokens


def test_rule_3_weight_follows_the_settings(make_rig: MakeRig) -> None:
    rig = make_rig(wlc={"unit_tokens": 500, "bytes_per_token_m": 2000})
    rig.live("a")
    assert rig.go(tokens=1000).event.weight_m == 4000  # 4000 bytes, 2000 tokens, 4 units


def test_rule_3_bytes_per_token_are_calibrated_from_usage(rig: Rig) -> None:
    rig.live("a")
    for _ in range(3):
        rig.finish(rig.go(tokens=10_000), prompt_tokens=20_000)  # 40,000 bytes: 2 bytes a token
    assert rig.go(tokens=1000).event.weight_m == 2000


def test_rule_3_calibration_is_per_model(rig: Rig) -> None:
    rig.live("a", models=("m", "other"))
    for _ in range(3):
        rig.finish(rig.go(tokens=10_000), prompt_tokens=20_000)
    assert rig.go(tokens=1000, model="other").event.weight_m == 1000


@pytest.mark.parametrize(("told", "expect"), [(1, 250), (10**9, 4000)])
def test_rule_3_calibration_keeps_within_reason(rig: Rig, told: int, expect: int) -> None:
    rig.live("a")
    rig.finish(rig.go(tokens=200_000_000), prompt_tokens=20_000 if told == 1 else told)
    assert rig.go(tokens=1000).event.weight_m == expect


def test_rule_3_little_evidence_does_not_move_the_weights(rig: Rig) -> None:
    rig.live("a")
    rig.finish(rig.go(tokens=8000), prompt_tokens=16_000)
    assert rig.go(tokens=1000).event.weight_m == 1000


def test_rule_3_calibration_follows_what_is_served_now(rig: Rig) -> None:
    rig.live("a")
    for _ in range(40):
        rig.finish(rig.go(tokens=1_000_000), prompt_tokens=1_000_000)
    for _ in range(20):
        rig.finish(rig.go(tokens=1_000_000), prompt_tokens=2_000_000)
    assert 1950 <= rig.go(tokens=1000).event.weight_m <= 2000


@pytest.mark.parametrize("told", [None, 0])
def test_rule_3_an_unknown_prompt_size_teaches_nothing(rig: Rig, told: int | None) -> None:
    rig.live("a")
    rig.finish(rig.go(tokens=10**6), prompt_tokens=told)
    assert rig.state.load.calibration == {}


def test_rule_3_effective_running_is_the_greater_of_requests_and_weight(rig: Rig) -> None:
    rig.live("a")
    rig.go(tokens=100)
    assert rig.state.measure("a", rig.at_ms).effective_running_m == 1000
    rig.go(tokens=9000)
    load = rig.state.measure("a", rig.at_ms)
    assert load.running_m == 2000
    assert load.effective_running_m == 9100


@pytest.mark.parametrize(
    ("running", "waiting", "tokens", "expect_running", "expect_waiting"),
    [
        (0, 0, 0, 0, 0),
        (4, 2, 0, 4000, 2000),
        (4, 0, 3000, 4000, 0),
        (2, 0, 5000, 5000, 3000),
        (2, 1, 5000, 5000, 4000),
    ],
)
def test_rule_3_literal_load_as_first_published(
    make_rig: MakeRig,
    running: int,
    waiting: int,
    tokens: int,
    expect_running: int,
    expect_waiting: int,
) -> None:
    rig = make_rig(policy={"load": "literal"})
    rig.live("a")
    if tokens:
        rig.go(tokens=tokens)
    rig.scrape(a=(running, waiting))
    load = rig.state.measure("a", rig.at_ms)
    assert (load.running_m, load.effective_running_m) == (expect_running, expect_running)
    assert (load.waiting_m, load.effective_waiting_m) == (expect_waiting, expect_waiting)


def test_rule_3_literal_load_makes_pins_unusable_between_scrapes(make_rig: MakeRig) -> None:
    reasons: dict[str, str] = {}
    for load in ("counted", "literal"):
        rig = make_rig(policy={"load": load})
        rig.live("a", "b")
        rig.go("s", tokens=5000)
        rig.go(tokens=5000)
        reasons[load] = rig.go("s", tokens=5000).reason
    assert reasons == {"counted": "affinity:session", "literal": "load"}


def test_rule_3_stale_after_three_intervals_is_own_in_flight_alone(rig: Rig) -> None:
    rig.live("a")
    rig.scrape(a=(9, 5))
    rig.go(tokens=1)
    rig.pass_s(9)
    fresh = rig.state.measure("a", rig.at_ms)
    assert (fresh.stale, fresh.running_m, fresh.waiting_m) == (False, 9000, 6000)
    rig.pass_s(0.001)
    stale = rig.state.measure("a", rig.at_ms)
    assert (stale.stale, stale.running_m, stale.waiting_m) == (True, 1000, 0)
    assert rig.standing("a") == "LIVE"


@pytest.mark.parametrize("reading", [(None, 0), (0, None), (None, None)])
def test_rule_3_a_missing_metric_is_unknown_not_zero(
    rig: Rig, reading: tuple[int | None, int | None]
) -> None:
    rig.live("a")
    rig.scrape(a=(7, 2))
    rig.pass_s(3).scrape(a=reading)
    assert rig.state.measure("a", rig.at_ms).waiting_m == 2000
    for _ in range(3):
        rig.pass_s(3).scrape(a=reading)
    assert rig.state.measure("a", rig.at_ms).stale
    assert rig.standing("a") == "LIVE"


def test_rule_3_unchanged_answers_keep_a_reading_fresh(rig: Rig) -> None:
    rig.live("a")
    rig.scrape(a=(7, 2))
    for _ in range(5):
        (scraped,) = rig.pass_s(3).same("a")
        assert scraped == e.Scraped(readings={}, same=("a",))
    assert not rig.state.measure("a", rig.at_ms).stale


def test_rule_3_never_read_is_stale(rig: Rig) -> None:
    rig.join("a")
    assert rig.state.measure("a", rig.at_ms).stale


@pytest.mark.parametrize(
    "ending",
    ["ok", "client_error", "upstream_cut", "client_gone", "first_byte_timeout", "shutdown"],
)
def test_rule_3_a_weight_is_released_exactly_once(rig: Rig, ending: Outcome) -> None:
    rig.live("a")
    other = rig.go(tokens=3000)
    flown = rig.go(tokens=5000)
    assert any(isinstance(event, e.Released) for event in rig.finish(flown, ending))
    assert rig.state.load.of("a").wlc_m == 3000
    assert rig.finish(flown, "ok") == ()
    assert rig.fail(flown) == ()
    assert rig.state.load.of("a").wlc_m == 3000
    rig.finish(other)
    assert (rig.state.load.of("a").wlc_m, rig.state.load.of("a").own) == (0, 0)


def test_rule_3_a_weight_is_never_reset_or_recomputed(rig: Rig) -> None:
    rig.live("a")
    flown = rig.go(tokens=20_000)
    helper = rig.go(tokens=20_000)
    rig.finish(helper, prompt_tokens=40_000)  # calibration moves on
    rig.scrape(a=(0, 0))
    rig.eject("a")
    rig.calm(7200, step_s=60)
    assert rig.state.load.of("a").wlc_m == flown.event.weight_m
    rig.finish(flown)
    assert rig.state.load.of("a").wlc_m == 0


def test_rule_3_what_runs_on_a_replica_that_left_is_still_counted_and_released(rig: Rig) -> None:
    rig.live("a", "b")
    flown = rig.go()
    rig.leave(flown.replica)
    assert rig.state.load.replicas[flown.replica].own == 1
    rig.finish(flown)
    assert flown.replica not in rig.state.load.replicas


def test_rule_3_an_unknown_end_changes_nothing(rig: Rig) -> None:
    rig.live("a")
    flown = rig.go()
    ghost = type(flown)(999, flown.event)
    assert rig.finish(ghost) == ()
    assert rig.fail(ghost) == ()
