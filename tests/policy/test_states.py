"""RULES 2: the states of a replica, and what a restart of the router keeps of them."""

import pytest

from tests.rig import BEGIN_MS, MakeRig, Rig
from trioroute import events as e


def test_rule_2_joining_gets_no_traffic_until_its_first_good_scrape(rig: Rig) -> None:
    rig.join("a")
    assert rig.standing("a") == "JOINING"
    refused = rig.arrive()
    assert isinstance(refused, e.Refused)
    assert refused.code == "no_healthy_instances"
    rig.fail_scrape("a", "refused")
    assert rig.standing("a") == "JOINING"
    assert e.Live(replica="a") in rig.scrape(a=(0, 0))
    assert rig.standing("a") == "LIVE"
    assert rig.go().replica == "a"


def test_rule_2_a_new_replica_is_live_without_probing(rig: Rig) -> None:
    rig.live("a")
    assert rig.logged(e.Probing) == []
    assert rig.logged(e.Ejected) == []


def test_rule_2_joining_beside_live_gets_nothing(rig: Rig) -> None:
    rig.live("a")
    rig.join("b")
    assert [rig.go().replica for _ in range(5)] == ["a"] * 5


def test_rule_2_draining_takes_nothing_new_and_keeps_what_runs(rig: Rig) -> None:
    rig.live("a", "b")
    running = rig.go("s")
    rig.drain(running.replica)
    assert rig.standing(running.replica) == "DRAINING"
    assert all(rig.go().replica != running.replica for _ in range(6))
    assert rig.state.load.of(running.replica).own == 1
    rig.finish(running)
    rig.leave(running.replica)
    assert running.replica not in rig.state.fleet.replicas


def test_rule_2_draining_is_no_last_resort_either(rig: Rig) -> None:
    rig.live("a")
    rig.drain("a")
    refused = rig.arrive()
    assert isinstance(refused, e.Refused)
    assert refused.code == "no_healthy_instances"


def test_rule_2_undrained_is_what_it_was_beneath(rig: Rig) -> None:
    rig.live("a", "b")
    rig.drain("a")
    rig.drain("a", on=False)
    assert rig.standing("a") == "LIVE"
    rig.eject("b")
    rig.drain("b")
    assert rig.standing("b") == "DRAINING"
    rig.drain("b", on=False)
    assert rig.standing("b") == "EJECTED"


def test_rule_2_states_survive_a_restart(rig: Rig) -> None:
    rig.live("live", "out", "back")
    rig.probing("back")
    rig.eject("out")
    rig.join("new")
    rig.drain("live")
    rig.restart()
    assert {name: rig.standing(name) for name in ("live", "out", "back", "new")} == {
        "live": "DRAINING",
        "out": "EJECTED",
        "back": "PROBING",
        "new": "JOINING",
    }


def test_rule_2_live_is_still_live_after_a_restart(rig: Rig) -> None:
    rig.live("a", "b").restart()
    assert {rig.go().replica, rig.go().replica} == {"a", "b"}


def test_rule_2_no_amnesty_by_restart(rig: Rig) -> None:
    rig.live("a", "b")
    for _ in range(2):
        rig.eject("a")
        rig.pass_s(300)
        rig.same("a", "b")
        rig.same("a", "b")
        rig.pass_s(15)
        rig.same("a", "b")
        assert rig.standing("a") == "LIVE"
    rig.fail_scrape("a", "refused")
    before = rig.state.health["a"]
    assert before.n == 3
    until_ms = before.until_ms
    rig.pass_s(5).restart()
    after = rig.state.health["a"]
    assert (after.stage, after.n, after.until_ms) == ("EJECTED", 3, until_ms)


def test_rule_2_failure_streaks_survive_a_restart(rig: Rig) -> None:
    rig.live("a", "b")
    rig.fail_scrape("a", "timeout")
    rig.restart()
    assert any(isinstance(event, e.Ejected) for event in rig.fail_scrape("a", "timeout"))


def test_rule_7_restart_keeps_pins_and_closes_what_was_in_flight(rig: Rig) -> None:
    rig.live("a", "b")
    first = rig.go("s1", "p1", tokens=50_000)
    second = rig.go("s2", "p2")
    pins = {key: rig.session_pin(key) for key in ("s1", "s2")}
    started, orphaned = rig.pass_s(2).restart()
    assert isinstance(started, e.Started)
    assert orphaned == e.Orphaned(dispatches=(first.number, second.number))
    assert {key: rig.session_pin(key) for key in ("s1", "s2")} == pins
    assert rig.prefix_pin("p1") == first.replica
    for name in ("a", "b"):
        assert rig.state.load.of(name).own == 0
        assert rig.state.load.of(name).wlc_m == 0
    assert rig.finish(first) == ()


def test_a_busy_replica_is_still_busy_after_a_restart(rig: Rig) -> None:
    rig.live("a", "b")
    rig.fail(rig.go(), "status", "none", 429, retry_after_ms=20_000)
    rig.pass_s(5).restart()
    assert {rig.use().replica for _ in range(4)} == {"b"}
    rig.pass_s(15).same()
    assert {rig.use().replica for _ in range(4)} == {"a", "b"}


def test_nothing_in_flight_leaves_no_orphans(rig: Rig) -> None:
    rig.live("a")
    rig.use()
    assert [type(event) for event in rig.restart()] == [e.Started]


def test_orphans_are_not_held_against_their_replica(rig: Rig) -> None:
    rig.live("a")
    for _ in range(4):
        rig.go()
    rig.restart()
    assert rig.standing("a") == "LIVE"
    assert rig.state.health["a"].request_failures == 0


def test_a_session_that_ran_at_the_crash_counts_as_used_until_then(rig: Rig) -> None:
    rig.live("a", "b")
    home = rig.go("s").replica
    rig.calm(70 * 60, step_s=60)
    rig.restart()
    rig.pass_s(60).same()
    again = rig.go("s")
    assert (again.replica, again.reason) == (home, "affinity:session")


@pytest.mark.parametrize("back_s", [1, 45, 200, 86_400])
def test_a_clock_that_steps_back_over_a_restart_lengthens_no_cooldown(
    make_rig: MakeRig, back_s: int
) -> None:
    rig = make_rig()
    rig.live("a", "b", "c")
    rig.fail(rig.go(), "status", "none", 429, retry_after_ms=60_000)
    rig.eject("a")
    rig.eject("b")
    rig.calm(10)
    rig.leave("b")
    ends = {name: one.until_ms for name, one in rig.state.health.items()}
    busy = {name: one.busy_until_ms for name, one in rig.state.health.items()}
    gone_ms, before_ms = rig.state.departed["b"].until_ms, rig.state.at_ms
    rig.at_ms -= back_s * 1000
    started = rig.restart()[0]
    assert started == e.Started(router="r1", release="0", rules=1, behind_ms=back_s * 1000)
    for name, health in rig.state.health.items():
        assert health.until_ms - rig.at_ms == max(ends[name] - before_ms, -rig.at_ms)
        assert health.busy_until_ms - rig.at_ms == max(busy[name] - before_ms, -rig.at_ms)
    assert ends["a"] - before_ms == 20_000, "10 s of 30 were over"
    gone = rig.state.departed["b"]
    assert gone.until_ms - rig.at_ms == gone_ms - before_ms
    assert gone.left_ms <= rig.at_ms
    rig.calm(17)
    assert rig.standing("a") == "EJECTED"
    rig.calm(6)
    assert rig.standing("a") == "PROBING"
    rig.verify()


def test_after_a_clock_stepped_back_what_happens_at_a_replica_counts_at_once(rig: Rig) -> None:
    """It joined in what is the future now."""
    rig.live("a")
    rig.at_ms -= 3_600_000
    rig.restart()
    rig.calm(1)
    for _ in range(3):
        rig.finish(rig.go(), "upstream_cut")
        rig.calm(1)
    assert [ejected.replica for ejected in rig.logged(e.Ejected)] == ["a"]
    rig.verify()


@pytest.mark.parametrize("ahead_s", [3600, 86_400])
def test_a_clock_that_was_ahead_freezes_nothing(make_rig: MakeRig, ahead_s: int) -> None:
    rig = make_rig()
    rig.live("a", "b", "c")
    rig.at_ms += ahead_s * 1000
    rig.same("a", "b", "c")
    rig.use("s", "p")
    busy = rig.go()
    rig.fail(busy, "status", "none", 429, retry_after_ms=86_400_000)
    rig.probing("b")
    rig.eject("a")
    rig.at_ms = BEGIN_MS + 10_000
    rig.restart()
    assert rig.state.at_ms == rig.at_ms
    health = rig.state.health
    assert health["a"].until_ms <= rig.at_ms + 300_000
    rig.calm(18)
    assert rig.standing("b") == "LIVE"
    rig.calm(303)
    assert rig.standing("a") == "LIVE"
    assert all(known.busy_until_ms <= rig.at_ms for known in health.values())
    rig.tick()
    assert rig.prefix_pin("p") is None
    rig.calm(3600, step_s=60)
    assert rig.session_pin("s") is None


def test_a_command_from_the_past_is_judged_now(rig: Rig) -> None:
    rig.live("a")
    rig.pass_s(10).use()
    rig.at_ms -= 5000
    rig.use()
    times = [entry.at_ms for entry in rig.log.entries]
    assert times == sorted(times)
