"""RULES 4: the five steps, retries and the limits of PROBING."""

from collections import Counter

import pytest

from tests.rig import FOUR, Flown, MakeRig, Rig
from trioroute import events as e


def replicas_of(rig: Rig, count: int, tokens: int = 1000) -> list[str]:
    return [rig.go(tokens=tokens).replica for _ in range(count)]


def test_rule_4_1_only_live_and_probing_are_candidates(rig: Rig) -> None:
    rig.live("live", "out", "drained", "probing")
    rig.probing("probing")
    rig.eject("out")
    rig.drain("drained")
    rig.join("joining")
    assert [c.name for c in rig.look().routable] == ["live", "probing"]
    assert set(replicas_of(rig, 12)) == {"live"}


def test_rule_4_2_a_queueing_replica_is_passed_over(rig: Rig) -> None:
    rig.live("idle_queue", "busy")
    rig.scrape(idle_queue=(0, 1), busy=(30, 0))
    assert replicas_of(rig, 3) == ["busy"] * 3


def test_rule_4_2_all_queueing_then_all_live_by_load(rig: Rig) -> None:
    rig.live("a", "b", "c")
    rig.scrape(a=(5, 9), b=(3, 1), c=(4, 1))
    assert rig.go(tokens=1).replica == "b"


def test_rule_4_2_live_with_a_queue_comes_before_probing(rig: Rig) -> None:
    rig.live("a", "b")
    rig.probing("b")
    rig.scrape(a=(50, 50), b=(0, 0))
    assert replicas_of(rig, 3) == ["a"] * 3


def test_rule_4_3_the_least_effective_running_wins(rig: Rig) -> None:
    rig.live(*FOUR)
    rig.scrape(a=(3, 0), b=(2, 0), c=(1, 0), d=(2, 0))
    assert rig.go(tokens=1000).replica == "c"
    assert rig.go(tokens=1000).replica in ("b", "c", "d")


def test_rule_4_3_ties_go_round(rig: Rig) -> None:
    rig.live(*FOUR)
    assert replicas_of(rig, 8) == [*FOUR, *FOUR]


def test_rule_4_3_ties_go_round_when_every_request_ends_at_once(rig: Rig) -> None:
    rig.live(*FOUR)
    assert [rig.use().replica for _ in range(8)] == [*FOUR, *FOUR]


def test_rule_4_3_the_cursor_is_per_pool(rig: Rig) -> None:
    rig.live("a", "b")
    rig.live("x", "y", models=("other",))
    assert rig.use().replica == "a"
    assert rig.use(model="other").replica == "x"
    assert rig.use().replica == "b"
    assert rig.use(model="other").replica == "y"


def test_rule_4_3_the_cursor_survives_a_restart(rig: Rig) -> None:
    rig.live(*FOUR)
    rig.use()
    rig.restart()
    assert rig.use().replica == "b"


def test_rule_4_3_the_round_goes_on_when_a_replica_leaves_or_joins(rig: Rig) -> None:
    rig.live(*FOUR)
    assert [rig.use().replica for _ in range(2)] == ["a", "b"]
    rig.leave("c")
    assert rig.use().replica == "d"
    rig.live("e")
    assert [rig.use().replica for _ in range(4)] == ["e", "a", "b", "d"]


def test_rule_4_4_a_usable_pin_wins_over_the_least_loaded(rig: Rig) -> None:
    rig.live("a", "b")
    assert rig.go("s").replica == "a"
    again = rig.go("s")
    assert (again.replica, again.reason, again.event.home) == ("a", "affinity:session", "a")


def test_rule_4_4_the_session_is_looked_at_before_the_prefix(rig: Rig) -> None:
    rig.live("a", "b")
    assert rig.use("s", "p1").replica == "a"
    assert rig.use(None, "p2").replica == "b"
    flown = rig.use("s", "p2")
    assert (flown.replica, flown.reason) == ("a", "affinity:session")
    flown = rig.use("new", "p2")
    assert (flown.replica, flown.reason) == ("b", "affinity:prefix")


@pytest.mark.parametrize(("running", "usable"), [(0, True), (1, True), (2, False), (3, False)])
def test_rule_4_4_session_slack_is_one(rig: Rig, running: int, usable: bool) -> None:
    rig.live("a", "b", "c")
    home = rig.use("s").replica
    rig.scrape(**{name: (running if name == home else 0, 0) for name in ("a", "b", "c")})
    flown = rig.go("s")
    assert (flown.replica == home) is usable
    assert flown.reason == ("affinity:session" if usable else "load")
    assert flown.event.home == home


@pytest.mark.parametrize(("running", "usable"), [(0, True), (1, False)])
def test_rule_4_4_prefix_slack_is_zero(rig: Rig, running: int, usable: bool) -> None:
    rig.live("a", "b")
    home = rig.use(None, "p").replica
    other = "b" if home == "a" else "a"
    rig.scrape(**{home: (running, 0), other: (0, 0)})
    flown = rig.go(None, "p")
    assert (flown.replica == home) is usable


def test_rule_4_4_slack_counts_from_the_least_running(rig: Rig) -> None:
    rig.live("a", "b", "c")
    home = rig.use("s").replica
    rig.scrape(**{name: (5 if name == home else 4, 0) for name in ("a", "b", "c")})
    assert rig.go("s").replica == home


def test_rule_4_4_the_least_running_is_taken_among_step_2_only(rig: Rig) -> None:
    rig.live("a", "b", "c")
    home = rig.use("s").replica
    hidden, other = (name for name in ("a", "b", "c") if name != home)
    rig.scrape(**{home: (5, 0), hidden: (0, 1), other: (5, 0)})
    assert rig.go("s").reason == "affinity:session"


def test_rule_4_4_a_queue_makes_a_pin_unusable(rig: Rig) -> None:
    rig.live("a", "b")
    home = rig.use("s").replica
    other = "b" if home == "a" else "a"
    rig.scrape(**{home: (1, 1), other: (1, 0)})
    flown = rig.go("s")
    assert (flown.replica, flown.reason) == (other, "load")
    assert [type(event) for event in flown.pins] == [e.Spilled]


def test_rule_4_4_weight_does_not_make_a_pin_unusable(rig: Rig) -> None:
    rig.live("a", "b")
    home = rig.go("s", tokens=500_000).replica
    assert rig.go("s").replica == home


def test_rule_4_5_nobody_routable_is_a_recorded_random_choice(rig: Rig) -> None:
    rig.live(*FOUR)
    for name in FOUR:
        rig.eject(name)
    draws = [rig.go(draw=draw) for draw in range(40)]
    assert {flown.reason for flown in draws} == {"fallback"}
    assert {flown.replica for flown in draws} == set(FOUR)
    assert rig.go(draw=7).replica == rig.go(draw=7).replica


def test_rule_4_5_an_ejected_replica_is_reached_by_fallback_only(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")
    rig.eject("a")
    assert set(replicas_of(rig, 20)) == {"b"}
    assert rig.go("s").replica == "b"


def test_rule_4_5_none_known_is_503(rig: Rig) -> None:
    rig.live("a")
    rig.leave("a")
    refused = rig.arrive()
    assert isinstance(refused, e.Refused)
    assert refused.code == "no_healthy_instances"


def test_a_model_nobody_ever_served_is_not_found(rig: Rig) -> None:
    rig.live("a")
    refused = rig.arrive(model="never")
    assert isinstance(refused, e.Refused)
    assert refused.code == "model_not_found"


def test_an_unknown_model_is_unhealthy_while_a_replica_has_not_told_its_models(rig: Rig) -> None:
    rig.live("a")
    rig.join("b", models=())
    refused = rig.arrive(model="perhaps")
    assert isinstance(refused, e.Refused)
    assert refused.code == "no_healthy_instances"


def test_rule_4_6_a_retry_leaves_out_what_was_tried(rig: Rig) -> None:
    rig.live(*FOUR)
    answer: object = rig.go()
    seen: list[str] = []
    while isinstance(answer, Flown):
        seen.append(answer.replica)
        rig.fail(answer, "fin", "replica")
        answer = rig.retry(answer)
    assert sorted(seen) == sorted(FOUR)
    assert answer is None
    attempts = [flown.attempt for flown in rig.logged(e.Dispatched)]
    assert attempts == [1, 2, 3, 4]


def test_rule_4_6_a_retry_may_reach_probing_when_every_live_one_was_tried(rig: Rig) -> None:
    rig.live("a", "b")
    rig.probing("b")
    flown = rig.go()
    rig.fail(flown, "status", "replica", 500)
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    assert again.replica == "b"


def test_rule_4_6_a_retry_of_a_pinned_request_does_not_return_to_its_pin(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")
    flown = rig.go("s")
    rig.fail(flown, "status", "replica", 500)
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    assert again.replica != flown.replica
    assert again.reason == "load"


def test_rule_4_7_probing_takes_four_at_once_then_requests_wait(rig: Rig) -> None:
    rig.live("a")
    rig.probing("a")
    flown = [rig.go() for _ in range(4)]
    assert rig.arrive() is None
    rig.finish(flown[0])
    assert rig.go().replica == "a"
    assert rig.arrive() is None


def test_rule_4_7_waiting_ends_when_a_replica_is_live(rig: Rig) -> None:
    rig.live("a")
    rig.probing("a")
    for _ in range(4):
        rig.go()
    rig.calm(15)
    assert rig.standing("a") == "LIVE"
    assert isinstance(rig.arrive(), Flown)


def test_rule_4_7_the_limit_is_per_probing_replica(rig: Rig) -> None:
    rig.live("a", "b")
    rig.probing("a")
    rig.eject("b")
    assert Counter(replicas_of(rig, 4)) == {"a": 4}
    assert rig.arrive() is None


def test_rule_4_7_switched_off_probing_is_flooded(make_rig: MakeRig) -> None:
    rig = make_rig(probing={"max_in_flight": 10_000})
    rig.live("a")
    rig.probing("a")
    assert len(replicas_of(rig, 50)) == 50


def test_rule_4_7_probing_is_no_overflow_of_full_live_replicas(make_rig: MakeRig) -> None:
    rig = make_rig(admission={"max_in_flight": 2})
    rig.live("a", "b")
    rig.probing("b")
    assert replicas_of(rig, 2) == ["a", "a"]
    assert rig.arrive() is None


def test_a_limit_per_replica_is_kept(make_rig: MakeRig) -> None:
    rig = make_rig(admission={"max_in_flight": 3})
    rig.live("a", "b")
    flown = [rig.go("s") for _ in range(6)]
    assert Counter(each.replica for each in flown) == {"a": 3, "b": 3}
    assert rig.arrive("s") is None
    rig.finish(flown[0])
    assert rig.go("s").replica == flown[0].replica


def test_rule_4_6_a_retry_that_tried_every_live_replica_may_fall_back(rig: Rig) -> None:
    rig.live("a", "b")
    rig.eject("b")
    first = rig.go()
    assert first.replica == "a"
    rig.fail(first, cause="timeout")
    second = rig.retry(first)
    assert isinstance(second, Flown)
    assert (second.replica, second.reason) == ("b", "fallback")
    rig.fail(second, cause="refused")
    assert rig.retry(second) is None
