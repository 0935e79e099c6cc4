"""RULES 6.3 to 6.9: the way back, the ladder of cooldowns, and when a streak ends."""

import pytest

from tests.rig import Flown, MakeRig, Rig
from trioroute import events as e
from trioroute.events.words import Blame, Cause, Outcome


def come_back(rig: Rig, name: str) -> None:
    """Wait out the cooldown, answer two scrapes, survive the window: LIVE."""
    health = rig.state.health[name]
    while rig.at_ms < health.until_ms:
        rig.pass_s(min(3, (health.until_ms - rig.at_ms) / 1000)).same()
        rig.tick()
    rig.same()
    rig.same()
    assert rig.standing(name) == "PROBING"
    rig.calm(15)
    assert rig.standing(name) == "LIVE"


def cooldown_s(rig: Rig, name: str) -> float:
    return (rig.state.health[name].until_ms - rig.at_ms) / 1000


def test_rule_6_3_user_requests_never_bring_a_replica_back(rig: Rig) -> None:
    rig.live("a")
    rig.eject("a")
    for _ in range(20):
        rig.pass_s(30)
        flown = rig.go()
        assert flown.reason == "fallback"
        rig.finish(flown)
        rig.tick()
    assert rig.standing("a") == "EJECTED"


def test_rule_6_4_not_before_the_cooldown_is_over(rig: Rig) -> None:
    rig.live("a", "b")
    rig.eject("a")
    for _ in range(9):
        rig.pass_s(3).same()
    rig.pass_s(2.999).same()
    rig.tick()
    assert rig.standing("a") == "EJECTED"
    rig.pass_s(0.001)
    assert rig.tick()[-1] == e.Probing(replica="a")


def test_rule_6_4_not_before_two_good_scrapes(rig: Rig) -> None:
    rig.live("a", "b")
    rig.eject("a")
    rig.pass_s(300)
    rig.tick()
    assert rig.standing("a") == "EJECTED"
    rig.same("a")
    rig.tick()
    assert rig.standing("a") == "EJECTED"
    rig.same("a")
    assert rig.standing("a") == "PROBING"


def test_rule_6_4_the_two_good_scrapes_are_the_last_two(rig: Rig) -> None:
    rig.live("a", "b")
    rig.eject("a")
    rig.pass_s(100)
    for _ in range(4):
        rig.same("a")
        rig.fail_scrape("a", "timeout")
    assert rig.standing("a") == "EJECTED"
    rig.same("a")
    rig.same("a")
    assert rig.standing("a") == "PROBING"


def test_rule_6_4_scrapes_before_the_eject_do_not_count(rig: Rig) -> None:
    rig.live("a", "b")
    for _ in range(9):
        rig.pass_s(3).same()
    for _ in range(3):
        flown = rig.go("s")
        rig.finish(flown, "upstream_error")
    assert rig.standing("a") == "EJECTED"
    rig.pass_s(30)
    rig.tick()
    assert rig.standing("a") == "EJECTED"


@pytest.mark.parametrize("by", ["tick", "scrape"])
def test_rule_6_5_live_after_15_clean_seconds(rig: Rig, by: str) -> None:
    rig.live("a", "b")
    rig.probing("a")
    rig.pass_s(14.999).same()
    rig.tick()
    assert rig.standing("a") == "PROBING"
    rig.pass_s(0.001)
    events = rig.tick() if by == "tick" else rig.same()
    assert e.Live(replica="a") in events
    assert rig.standing("a") == "LIVE"


@pytest.mark.parametrize("cause", ["refused", "timeout", "status", "protocol"])
def test_rule_6_6_any_failed_scrape_ejects_a_probing_replica(rig: Rig, cause: Cause) -> None:
    rig.live("a", "b")
    rig.probing("a")
    rig.fail_scrape("a", cause)
    assert rig.standing("a") == "EJECTED"
    assert rig.state.health["a"].n == 2


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("retried", [True, False])
def test_rule_6_6_any_5xx_ejects_a_probing_replica(rig: Rig, status: int, retried: bool) -> None:
    rig.live("a")
    rig.probing("a")
    if retried:
        rig.fail(rig.go(), "status", "replica", status)
    else:
        rig.finish(rig.go(), "upstream_error", status=status)
    assert rig.standing("a") == "EJECTED"


@pytest.mark.parametrize("blame", ["none", "replica"])
def test_rule_6_6_a_429_does_not_eject_a_probing_replica(rig: Rig, blame: Blame) -> None:
    rig.live("a")
    rig.probing("a")
    rig.fail(rig.go(), "status", blame, 429)
    assert rig.standing("a") == "PROBING"


@pytest.mark.parametrize("outcome", ["ok", "client_error", "client_gone", "shutdown"])
def test_rule_6_6_a_clean_ending_leaves_it_probing(rig: Rig, outcome: Outcome) -> None:
    rig.live("a")
    rig.probing("a")
    rig.finish(rig.go(), outcome)
    assert rig.standing("a") == "PROBING"


def test_rule_6_7_the_ladder_when_it_dies_while_probing(rig: Rig) -> None:
    rig.live("a", "b")
    rig.eject("a")
    ladder = [cooldown_s(rig, "a")]
    for _ in range(6):
        rig.at_ms = rig.state.health["a"].until_ms
        rig.same()
        rig.same()
        rig.pass_s(3)
        rig.fail_scrape("a", "refused")
        ladder.append(cooldown_s(rig, "a"))
    assert ladder == [30, 60, 120, 240, 300, 300, 300]
    assert [event.n for event in rig.logged(e.Ejected)] == [1, 2, 3, 4, 5, 6, 7]


def test_rule_6_7_the_ladder_when_it_dies_soon_after_it_was_live(rig: Rig) -> None:
    rig.live("a", "b")
    rig.eject("a")
    ladder = [cooldown_s(rig, "a")]
    for _ in range(5):
        come_back(rig, "a")
        rig.calm(590, step_s=10)
        rig.eject("a")
        ladder.append(cooldown_s(rig, "a"))
    assert ladder == [30, 60, 120, 240, 300, 300]


def test_rule_6_7_an_ever_so_long_streak_stays_at_the_ceiling(make_rig: MakeRig) -> None:
    rig = make_rig(eject={"cooldown_ms": 1, "cooldown_max_ms": 1})
    rig.live("a", "b")
    for _ in range(80):
        rig.eject("a")
        rig.pass_s(1).same()
        rig.same()
    assert rig.state.health["a"].n == 80
    assert rig.logged(e.Ejected)[-1].until_ms == rig.at_ms - 1000 + 1


def test_rule_6_7_the_first_eject_is_n_1_however_young(rig: Rig) -> None:
    rig.live("a", "b")
    rig.eject("a")
    assert rig.state.health["a"].n == 1


@pytest.mark.parametrize(("live_s", "n"), [(0, 2), (300, 2), (599, 2), (600, 1), (5000, 1)])
def test_rule_6_8_only_600_unbroken_live_seconds_end_a_streak(
    rig: Rig, live_s: int, n: int
) -> None:
    rig.live("a", "b")
    rig.eject("a")
    come_back(rig, "a")
    rig.calm(live_s, step_s=50)
    rig.eject("a")
    assert rig.state.health["a"].n == n


def test_rule_6_8_live_time_does_not_add_up_across_ejects(rig: Rig) -> None:
    rig.live("a", "b")
    for expect in (1, 2, 3):
        rig.eject("a")
        assert rig.state.health["a"].n == expect
        come_back(rig, "a")
        rig.calm(400, step_s=50)


def test_rule_6_8_the_streak_that_is_shown_ends_with_it(rig: Rig) -> None:
    rig.live("a", "b")
    rig.eject("a")
    come_back(rig, "a")
    rig.calm(590, step_s=10)
    health, in_force = rig.state.health["a"], rig.state.settings
    assert health.streak(rig.at_ms, in_force) == 1
    rig.pass_s(10)
    assert health.streak(rig.at_ms, in_force) == 0


def test_rule_6_8_a_restart_does_not_shorten_the_600_seconds(rig: Rig) -> None:
    rig.live("a", "b")
    rig.eject("a")
    come_back(rig, "a")
    rig.calm(400, step_s=50)
    rig.restart()
    rig.calm(150, step_s=50)
    rig.eject("a")
    assert rig.state.health["a"].n == 2


def test_rule_6_7_switched_off_a_flapping_replica_is_back_every_time(make_rig: MakeRig) -> None:
    """A fixed cooldown, no window: what the incident "Flap" was made of."""
    rig = make_rig(eject={"cooldown_max_ms": 30_000}, probing={"good_scrapes": 1, "window_ms": 0})
    rig.live("a", "b")
    for _ in range(10):
        rig.eject("a")
        assert cooldown_s(rig, "a") == 30
        rig.pass_s(30).same()
        rig.tick()
        assert rig.standing("a") == "LIVE"


def test_rule_6_9_coming_back_is_stricter_than_going_out(rig: Rig) -> None:
    rig.live("a", "b")
    rig.fail_scrape("a", "reset")
    assert rig.standing("a") == "EJECTED"
    out_ms = rig.at_ms
    rig.calm(300)
    back_ms = next(entry.at_ms for entry in reversed(rig.log.entries) if entry.kind == "Live")
    assert back_ms - out_ms >= 45_000


def test_rule_6_10_a_standing_token_counter_is_a_stall(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")
    for _ in range(20):
        rig.scrape(a=rig.reading("a", 3, tokens=77), b=rig.reading("b", 4, tokens=1))
        assert not rig.state.health["a"].stalled(rig.at_ms, rig.state.settings)
        rig.pass_s(3)
    rig.scrape(a=rig.reading("a", 3, tokens=77), b=rig.reading("b", 4, tokens=9))
    assert rig.state.health["a"].stalled(rig.at_ms, rig.state.settings)
    flown = rig.use("s")
    assert flown.replica == "b"
    assert isinstance(flown.pins[0], e.Spilled)
    assert flown.pins[0].cause == "stalled"
    assert rig.standing("a") == "LIVE"
    rig.scrape(a=rig.reading("a", 3, tokens=78))
    assert not rig.state.health["a"].stalled(rig.at_ms, rig.state.settings)


@pytest.mark.parametrize(
    ("running", "tokens", "moving"),
    [(0, 77, False), (3, 77, True), (3, None, False), (None, 77, False)],
)
def test_rule_6_10_is_no_stall(
    rig: Rig, running: int | None, tokens: int | None, moving: bool
) -> None:
    rig.live("a")
    for turn in range(40):
        told = tokens + turn if moving and tokens is not None else tokens
        rig.scrape(a=rig.reading("a", running, tokens=told))
        rig.pass_s(3)
        assert not rig.state.health["a"].stalled(rig.at_ms, rig.state.settings)


def test_rule_6_10_silence_of_the_scraper_is_no_stall(rig: Rig) -> None:
    rig.live("a")
    rig.scrape(a=rig.reading("a", 3, tokens=77))
    rig.pass_s(3).scrape(a=rig.reading("a", 3, tokens=90))
    rig.pass_s(120)
    assert not rig.state.health["a"].stalled(rig.at_ms, rig.state.settings)


def test_rule_6_10_switched_off_the_frozen_replica_is_still_chosen(make_rig: MakeRig) -> None:
    rig = make_rig(eject={"stall_after_ms": 10**9})
    rig.live("a", "b")
    for _ in range(40):
        rig.pass_s(3).scrape(a=rig.reading("a", 0 + 1, tokens=77), b=rig.reading("b", 4, tokens=1))
    assert rig.use().replica == "a"


def test_rule_6_11_a_sleeping_engine_is_not_live(rig: Rig) -> None:
    rig.live("a", "b")
    rig.scrape(a=rig.reading("a", asleep=True))
    assert rig.standing("a") == "JOINING"
    assert {rig.use().replica for _ in range(4)} == {"b"}
    rig.scrape(b=rig.reading("b", asleep=True))
    refused = rig.arrive()
    assert isinstance(refused, e.Refused)
    rig.scrape(a=(0, 0))
    assert rig.use().replica == "a"


def test_rule_6_11_an_engine_that_joins_asleep_gets_nothing(rig: Rig) -> None:
    rig.join("a")
    rig.scrape(a=rig.reading("a", asleep=True))
    assert isinstance(rig.arrive(), e.Refused)
    rig.scrape(a=(0, 0))
    assert isinstance(rig.arrive(), Flown)
