"""RULES 5.8 to 5.11: dead pins, pins that move with a retry, bounds, and held responses."""

from collections.abc import Callable

import pytest

from tests.rig import Flown, MakeRig, Rig
from trioroute import events as e
from trioroute.events.words import DeadPin


def sleep(rig: Rig, name: str) -> None:
    rig.scrape(**{name: rig.reading(name, asleep=True)})


def rejoin(rig: Rig, name: str) -> None:
    rig.leave(name)
    rig.join(name)


KILLERS: list[tuple[Callable[[Rig, str], object], DeadPin]] = [
    (Rig.eject, "ejected"),
    (Rig.drain, "draining"),
    (Rig.leave, "gone"),
    (Rig.probing, "probing"),
    (sleep, "asleep"),
    (rejoin, "joining"),
]


@pytest.mark.parametrize(("kill", "cause"), KILLERS)
def test_rule_5_8_a_dead_pin_rebinds_a_session_at_once(
    rig: Rig, kill: Callable[[Rig, str], object], cause: DeadPin
) -> None:
    rig.live("a", "b")
    assert rig.use("s").replica == "a"
    kill(rig, "a")
    flown = rig.use("s")
    assert flown.replica == "b"
    (rebound,) = flown.pins
    assert isinstance(rebound, e.Rebound)
    assert (rebound.previous, rebound.replica, rebound.cause) == ("a", "b", cause)
    assert rig.use("s").reason == "affinity:session"


@pytest.mark.parametrize(("kill", "cause"), KILLERS)
def test_rule_5_8_a_dead_pin_deletes_a_prefix_at_once(
    rig: Rig, kill: Callable[[Rig, str], object], cause: DeadPin
) -> None:
    rig.live("a", "b")
    assert rig.use(None, "p").replica == "a"
    kill(rig, "a")
    flown = rig.use(None, "p")
    assert flown.replica == "b"
    unbound = flown.pins[0]
    assert isinstance(unbound, e.Unbound)
    assert (unbound.replica, unbound.cause) == ("a", cause)
    assert rig.prefix_pin("p") == "b"


def test_rule_5_8_a_dead_pin_is_no_spill(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s", "p")
    rig.eject("a")
    rig.use("s")
    rig.use(None, "p")
    assert rig.logged(e.Spilled) == []


def test_rule_5_8_probing_takes_no_new_pin(rig: Rig) -> None:
    rig.live("a")
    rig.probing("a")
    flown = rig.use("s", "p")
    assert (flown.replica, flown.pins) == ("a", ())
    assert (rig.session_pin("s"), rig.prefix_pin("p")) == (None, None)


def test_rule_5_8_probing_keeps_no_old_pin(rig: Rig) -> None:
    rig.live("a")
    rig.use("s")
    rig.use(None, "p")
    rig.probing("a")
    for key in (("s", None), (None, "p")):
        (unbound,) = rig.use(*key).pins
        assert isinstance(unbound, e.Unbound)
        assert unbound.cause == "probing"
    assert (rig.session_pin("s"), rig.prefix_pin("p")) == (None, None)


def test_rule_5_8_a_session_is_not_rebound_to_a_probing_replica(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")
    rig.probing("b")
    rig.eject("a")
    flown = rig.use("s")
    assert flown.replica == "b"
    assert rig.session_pin("s") is None


def test_rule_5_8_the_fallback_takes_no_pin(rig: Rig) -> None:
    rig.live("a")
    rig.eject("a")
    flown = rig.use("s", "p")
    assert (flown.reason, flown.pins) == ("fallback", ())


def test_rule_5_9_both_keys_are_bound_where_the_request_went(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use()
    flown = rig.use("s", "p")
    assert [(type(b), b.replica) for b in flown.pins if isinstance(b, e.Bound)] == [
        (e.Bound, "b"),
        (e.Bound, "b"),
    ]
    assert (rig.session_pin("s"), rig.prefix_pin("p")) == ("b", "b")


def test_rule_5_9_a_request_without_keys_binds_nothing(rig: Rig) -> None:
    rig.live("a")
    assert rig.use().pins == ()


def test_rule_5_9_a_request_with_a_session_pin_binds_no_prefix(rig: Rig) -> None:
    rig.live("a")
    rig.use("s")
    assert rig.use("s", "p").pins == ()
    assert rig.prefix_pin("p") is None


def test_rule_5_9_pins_that_a_failed_dispatch_bound_move_with_the_request(rig: Rig) -> None:
    rig.live("a", "b", "c")
    flown = rig.go("s", "p")
    rig.fail(flown, "status", "replica", 500)
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    assert again.replica != flown.replica
    causes = [(p.kind, p.previous, p.cause) for p in again.pins if isinstance(p, e.Rebound)]
    assert causes == [("session", flown.replica, "failed"), ("prefix", flown.replica, "failed")]
    assert rig.session_pin("s") == rig.prefix_pin("p") == again.replica
    rig.fail(again, "status", "replica", 500)
    third = rig.retry(again)
    assert isinstance(third, Flown)
    assert rig.session_pin("s") == rig.prefix_pin("p") == third.replica
    assert rig.logged(e.Spilled) == []


def test_rule_5_9_own_pins_are_let_go_where_the_retry_finds_no_live_replica(rig: Rig) -> None:
    rig.live("a", "b")
    rig.probing("b")
    flown = rig.go("s", "p")
    assert flown.replica == "a"
    rig.fail(flown, "refused")
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    assert again.replica == "b"
    assert (rig.session_pin("s"), rig.prefix_pin("p")) == (None, None)


def test_rule_5_9_a_pin_that_others_bound_only_spills_on_a_retry(rig: Rig) -> None:
    rig.live("a", "b")
    home = rig.use("s").replica
    flown = rig.go("s")
    rig.fail(flown, "status", "replica", 500)
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    (spilled,) = again.pins
    assert isinstance(spilled, e.Spilled)
    assert (spilled.cause, spilled.count) == ("tried", 1)
    assert rig.session_pin("s") == home


def test_rule_5_9_a_prefix_that_moved_lives_five_minutes_from_then(rig: Rig) -> None:
    rig.live("a", "b")
    flown = rig.go(None, "moved")
    rig.use(None, "later")
    rig.pass_s(240)
    rig.same()
    rig.fail(flown, "status", "replica", 500)
    rig.retry(flown)
    rig.pass_s(61).same()
    rig.tick()
    assert rig.prefix_pin("later") is None
    assert rig.prefix_pin("moved") is not None


def test_rule_5_10_tables_are_bounded_and_the_least_recently_used_goes(make_rig: MakeRig) -> None:
    rig = make_rig(pins={"max": 3})
    rig.live("a")
    for number in range(3):
        rig.use(f"s{number}", f"p{number}")
    rig.use("s0")
    rig.use(None, "p0")
    flown = rig.use("s3", "p3")
    gone = [event for event in flown.pins if isinstance(event, e.Unbound)]
    assert [(event.key, event.cause) for event in gone] == [("s1", "evicted"), ("p1", "evicted")]
    assert set(rig.state.pins.session) == {"s0", "s2", "s3"}
    assert set(rig.state.pins.prefix) == {"p0", "p2", "p3"}


def test_rule_5_10_a_lowered_bound_is_reached(make_rig: MakeRig) -> None:
    rig = make_rig(pins={"max": 40})
    rig.live("a")
    for number in range(40):
        rig.use(f"s{number}", f"p{number}")
    rig.configure(make_rig(pins={"max": 5}).state.settings)
    for number in range(6):
        rig.use(f"t{number}", f"u{number}")
    assert (len(rig.state.pins.session), len(rig.state.pins.prefix)) == (5, 5)
    assert list(rig.state.pins.session) == [f"t{number}" for number in range(1, 6)]


def test_rule_5_10_no_room_at_all_means_no_pins(make_rig: MakeRig) -> None:
    rig = make_rig(pins={"max": 0})
    rig.live("a")
    assert rig.use("s", "p").pins == ()


def test_rule_5_11_a_follow_up_goes_to_the_replica_that_holds_the_response(rig: Rig) -> None:
    rig.live("a", "b")
    first = rig.go("s")
    rig.finish(first, response="r1")
    rig.scrape(a=(50, 9), b=(0, 0))  # it does not spill
    follow = rig.use("s", response="r1")
    assert (follow.replica, follow.reason) == ("a", "affinity:response")
    assert rig.logged(e.Spilled) == []


def test_rule_5_11_an_unknown_response_is_chosen_as_any_other(rig: Rig) -> None:
    rig.live("a", "b")
    assert rig.use(response="never heard").reason == "load"


def test_rule_5_11_not_when_its_replica_is_out_of_traffic(rig: Rig) -> None:
    rig.live("a", "b")
    rig.finish(rig.go(), response="r1")
    rig.eject("a")
    follow = rig.use(response="r1")
    assert (follow.replica, follow.reason) == ("b", "load")


def test_rule_5_11_a_retry_does_not_go_back(rig: Rig) -> None:
    rig.live("a", "b")
    rig.finish(rig.go(), response="r1")
    flown = rig.go(response="r1")
    rig.fail(flown, "status", "replica", 500)
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    assert (again.replica, again.reason) == ("b", "load")


def test_rule_5_11_responses_are_remembered_for_60_minutes(rig: Rig) -> None:
    rig.live("a", "b")
    rig.finish(rig.go(), response="r1")
    rig.calm(3599, step_s=60)
    assert rig.use(response="r1").reason == "affinity:response"
    rig.calm(1)
    assert rig.use(response="r1").reason == "load"


def test_rule_5_11_the_memory_is_bounded_and_survives_a_restart(make_rig: MakeRig) -> None:
    rig = make_rig(pins={"max": 3})
    rig.live("a", "b")
    for number in range(10):
        rig.finish(rig.go(), response=f"r{number}")
    assert list(rig.state.pins.response) == ["r7", "r8", "r9"]
    home = rig.state.pins.response["r8"].replica
    rig.restart()
    assert rig.use(response="r8").replica == home


def test_rule_5_11_old_responses_make_room_when_a_new_one_comes(rig: Rig) -> None:
    rig.live("a")
    for number in range(5):
        rig.finish(rig.go(), response=f"r{number}")
    rig.pass_s(3600).same()
    rig.finish(rig.go(), response="new")
    assert list(rig.state.pins.response) == ["new"]


def come_back(rig: Rig, name: str, *others: str) -> None:
    """Through its cooldown and the probing window, scraped well all the time."""
    rig.calm(60, name, *others)
    assert rig.standing(name) == "LIVE"


def test_rule_5_8_a_pin_that_slept_through_an_eject_is_dead_although_its_replica_is_back(
    rig: Rig,
) -> None:
    rig.live("a", "b")
    assert rig.use("s", "p").replica == "a"
    rig.eject("a")
    come_back(rig, "a", "b")
    flown = rig.use("s")
    assert [type(event) for event in flown.pins] == [e.Rebound]
    assert flown.reason == "load"
    other = rig.use(None, "p")
    assert isinstance(other.pins[0], e.Unbound)
    assert other.pins[0].cause == "ejected"


def test_rule_6_2_a_stream_older_than_the_eject_says_nothing_of_the_replica_that_came_back(
    rig: Rig,
) -> None:
    rig.live("a", "b")
    old = [rig.go(f"s{number}") for number in range(8)]
    on_a = [flown for flown in old if flown.replica == "a"]
    assert len(on_a) >= 3
    rig.eject("a")
    come_back(rig, "a", "b")
    for flown in on_a:
        rig.finish(flown, "idle_timeout", cause="timeout", blame="replica")
    assert rig.standing("a") == "LIVE"
