"""RULES 5.3 to 5.7: lives of pins, spills, rebinds and drops."""

import pytest

from tests.rig import Flown, MakeRig, Rig
from trioroute import events as e
from trioroute.events.sections import Slack


def other_of(home: str) -> str:
    return "b" if home == "a" else "a"


def spill(rig: Rig, session: str | None = None, prefix: str | None = None, gap: int = 2) -> Flown:
    """One request for the key while its home runs ``gap`` more than the other; ends at once."""
    home = rig.session_pin(session) if session is not None else rig.prefix_pin(str(prefix))
    assert home is not None
    rig.scrape(**{home: (gap, 0), other_of(home): (0, 0)})
    return rig.use(session, prefix)


def pins_of(flown: Flown) -> list[str]:
    return [type(event).__name__ for event in flown.pins]


def test_rule_5_3_a_session_idle_for_60_minutes_is_gone(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")
    rig.pass_s(3599.999).tick()
    assert rig.session_pin("s") == "a"
    rig.pass_s(0.001)
    assert e.Unbound(kind="session", key="s", replica="a", cause="ttl", dispatch=None) in rig.tick()
    assert rig.session_pin("s") is None


def test_rule_5_3_each_request_renews_a_session(rig: Rig) -> None:
    rig.live("a", "b")
    for _ in range(4):
        assert rig.use("s").replica == "a"
        rig.calm(59 * 60, step_s=60)
    assert rig.session_pin("s") == "a"


def test_rule_5_3_a_running_request_counts_as_use(rig: Rig) -> None:
    rig.live("a", "b")
    flown = rig.go("s")
    rig.calm(2 * 3600, step_s=60)
    assert rig.session_pin("s") == "a"
    rig.finish(flown)
    rig.calm(59 * 60, step_s=60)
    assert rig.session_pin("s") == "a"
    rig.calm(60, step_s=60)
    assert rig.session_pin("s") is None


def test_rule_5_3_all_running_requests_count_also_after_the_pin_was_evicted(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(pins={"max": 1})
    rig.live("a", "b")
    long = rig.go("s")
    rig.use("another")
    assert rig.session_pin("s") is None
    short = rig.go("s")
    home = rig.session_pin("s")
    rig.finish(short)
    rig.calm(2 * 3600, step_s=60)
    assert rig.session_pin("s") == home
    rig.finish(long)
    rig.calm(3600, step_s=60)
    assert rig.session_pin("s") is None


def test_rule_5_3_a_prefix_dies_five_minutes_after_binding_however_often_used(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use(None, "p")
    for _ in range(4):
        rig.pass_s(60).same()
        assert rig.use(None, "p").reason == "affinity:prefix"
    rig.pass_s(59.999).same()
    assert rig.use(None, "p").reason == "affinity:prefix"
    rig.pass_s(0.001)
    late = rig.use(None, "p")
    assert late.reason == "load"
    assert pins_of(late) == ["Unbound", "Bound"]


def test_rule_5_3_expired_is_expired_before_any_tick(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s", "p")
    rig.pass_s(3600).same()
    flown = rig.use("s", "p")
    assert (flown.reason, flown.event.home) == ("load", None)
    assert pins_of(flown) == ["Unbound", "Bound", "Unbound", "Bound"]


def test_rule_5_3_an_expired_session_is_not_revived_by_a_request_that_binds_nothing(
    rig: Rig,
) -> None:
    rig.live("a", "b")
    assert rig.use("s").replica == "a"
    rig.pass_s(3590).same()
    rig.eject("a")
    rig.eject("b")
    rig.pass_s(60)
    assert rig.use("s").reason == "fallback"
    assert rig.session_pin("s") is None


def test_rule_5_3_an_expired_session_does_not_hide_the_use_of_its_prefix(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")
    rig.pass_s(3590).same()
    rig.use("x", "p")
    assert spill(rig, None, "p").reason == "load"
    rig.pass_s(10).scrape(a=(0, 0), b=(0, 0))
    assert rig.use("s", "p").reason == "affinity:prefix"
    assert rig.state.pins.prefix["p"].spills == 0


@pytest.mark.parametrize("count", [1, 300, 700])
def test_rule_5_3_ticks_take_every_expired_pin_away(rig: Rig, count: int) -> None:
    rig.live("a", "b")
    for number in range(count):
        rig.use(f"s{number}", f"p{number}")
    rig.pass_s(3600)
    for _ in range(4):
        rig.pass_s(1).tick()
    assert (len(rig.state.pins.session), len(rig.state.pins.prefix)) == (0, 0)
    assert rig.state.pins.bound_order == {}
    assert rig.state.pins.digest == 0


def test_rule_5_4_spills_count_in_a_row_and_a_use_resets_them(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")
    for count in (1, 2):
        spilled = spill(rig, "s").pins[0]
        assert isinstance(spilled, e.Spilled)
        assert (spilled.count, spilled.cause, spilled.to) == (count, "running", "b")
    rig.scrape(a=(0, 0), b=(0, 0))
    assert rig.use("s").reason == "affinity:session"
    spilled = spill(rig, "s").pins[0]
    assert isinstance(spilled, e.Spilled)
    assert spilled.count == 1
    assert rig.session_pin("s") == "a"


def test_rule_5_5_third_spill_rebinds(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")
    assert [pins_of(spill(rig, "s")) for _ in range(3)] == [
        ["Spilled"],
        ["Spilled"],
        ["Spilled", "Rebound"],
    ]
    assert rig.session_pin("s") == "b"
    rebound = rig.logged(e.Rebound)[0]
    assert (rebound.cause, rebound.previous, rebound.replica) == ("spills", "a", "b")
    assert rig.state.pins.session["s"].spills == 0


def test_rule_5_5_a_restart_does_not_forget_spills(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")
    spill(rig, "s")
    spill(rig, "s")
    rig.restart()
    assert pins_of(spill(rig, "s")) == ["Spilled", "Rebound"]


def test_rule_5_5_switched_off_a_session_never_moves(make_rig: MakeRig) -> None:
    rig = make_rig(pins={"spills_to_rebind": 10**9, "force_rebind": 10**9})
    rig.live("a", "b")
    rig.use("s")
    for _ in range(30):
        spill(rig, "s", gap=9)
    assert rig.session_pin("s") == "a"


@pytest.mark.parametrize(("gap", "rebinds"), [(2, False), (3, True), (9, True)])
def test_rule_5_6_force_rebind_at_a_gap_of_three(rig: Rig, gap: int, rebinds: bool) -> None:
    rig.live("a", "b")
    rig.use("s")
    flown = spill(rig, "s", gap=gap)
    assert pins_of(flown) == (["Spilled", "Rebound"] if rebinds else ["Spilled"])
    if rebinds:
        assert rig.logged(e.Rebound)[0].cause == "force"


@pytest.mark.parametrize(("gap", "rebinds"), [(4, False), (5, False), (6, True)])
def test_rule_5_6_a_wider_slack_widens_the_gap(make_rig: MakeRig, gap: int, rebinds: bool) -> None:
    rig = make_rig(policy={"slack": Slack(session=4)})
    rig.live("a", "b")
    rig.use("s")
    assert ("Rebound" in pins_of(spill(rig, "s", gap=gap))) is rebinds


def test_rule_5_6_switched_off_a_hot_home_needs_three_spills(make_rig: MakeRig) -> None:
    rig = make_rig(pins={"force_rebind": 10**9})
    rig.live("a", "b")
    rig.use("s")
    assert pins_of(spill(rig, "s", gap=50)) == ["Spilled"]


def test_rule_5_7_second_spill_deletes_the_prefix_and_the_next_request_may_bind(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use(None, "p")
    assert pins_of(spill(rig, None, "p", gap=1)) == ["Spilled"]
    assert rig.prefix_pin("p") == "a"
    assert pins_of(spill(rig, None, "p", gap=1)) == ["Spilled", "Unbound"]
    assert rig.prefix_pin("p") is None
    assert pins_of(rig.use(None, "p")) == ["Bound"]
    assert rig.prefix_pin("p") == "b"


def test_rule_5_7_new_sessions_that_share_a_prefix_do_not_hold_a_hot_replica(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s0", "p")
    for number in range(1, 3):
        rig.scrape(a=(1, 0), b=(0, 0))
        flown = rig.use(f"s{number}", "p")
        assert flown.replica == "b"
        assert rig.session_pin(f"s{number}") == "b"
    assert rig.prefix_pin("p") is None


def test_rule_5_7_a_use_resets_the_prefix_counter(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use(None, "p")
    for _ in range(4):
        spill(rig, None, "p", gap=1)
        rig.scrape(a=(0, 0), b=(0, 0))
        assert rig.use(None, "p").reason == "affinity:prefix"
    assert rig.prefix_pin("p") == "a"


def test_rule_5_7_switched_off_a_prefix_stays_on_its_hot_replica(make_rig: MakeRig) -> None:
    rig = make_rig(pins={"prefix_spills_to_drop": 10**9})
    rig.live("a", "b")
    rig.use(None, "p")
    for _ in range(20):
        spill(rig, None, "p")
    assert rig.prefix_pin("p") == "a"
