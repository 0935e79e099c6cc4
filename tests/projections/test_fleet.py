"""Who is in the fleet, and which pool a model has."""

from tests.rig import Rig
from trioroute import events as e
from trioroute.policy import commands as c


def test_a_pool_is_the_replicas_that_serve_a_model_in_order_of_joining(rig: Rig) -> None:
    rig.live("z", "a", models=("m", "n"))
    rig.live("b", models=("n",))
    fleet = rig.state.fleet
    assert [replica.name for replica in fleet.pool("m")] == ["z", "a"]
    assert [replica.name for replica in fleet.pool("n")] == ["z", "a", "b"]
    assert fleet.pool("x") == ()


def test_models_are_learned_from_a_scrape(rig: Rig) -> None:
    rig.join("a", models=())
    rig.scrape(a=rig.reading("a", models=("m",)))
    assert rig.standing("a") == "LIVE"
    assert rig.go().replica == "a"
    rig.scrape(a=rig.reading("a", models=("n",)))
    assert isinstance(rig.arrive(), e.Refused)
    assert rig.go(model="n").replica == "a"


def test_a_model_that_was_served_once_is_unhealthy_not_unknown(rig: Rig) -> None:
    rig.live("a", models=("once",))
    rig.live("b")
    rig.leave("a")
    refused = rig.arrive(model="once")
    assert isinstance(refused, e.Refused)
    assert refused.code == "no_healthy_instances"


def test_joining_again_unchanged_is_nothing(rig: Rig) -> None:
    rig.live("a")
    before = len(rig.log.entries)
    rig.join("a")
    assert len(rig.log.entries) == before
    assert rig.standing("a") == "LIVE"


def test_a_new_address_is_another_process(rig: Rig) -> None:
    rig.live("a", "b")
    rig.eject("a")
    rig.do(c.Join(at_ms=rig.at_ms, replica="a", url="http://elsewhere:1", models=("m",)))
    assert rig.standing("a") == "JOINING"
    assert rig.state.health["a"].n == 0
    assert rig.state.measure("a", rig.at_ms).stale


def test_a_new_address_keeps_what_still_runs_on_the_old_one(rig: Rig) -> None:
    rig.live("a")
    flown = rig.go()
    rig.do(c.Join(at_ms=rig.at_ms, replica="a", url="http://elsewhere:1", models=("m",)))
    assert rig.state.load.of("a").own == 1
    rig.finish(flown)
    assert rig.state.load.of("a").own == 0


def test_a_request_without_a_model_has_one_pool_to_go_to(rig: Rig) -> None:
    fleet = rig.state.fleet
    assert fleet.only_model() is None
    rig.live("a", "b", models=("base", "adapter"))
    assert fleet.only_model() == "base"
    rig.live("c", models=("other",))
    assert fleet.only_model() is None


def test_readings_of_a_replica_that_left_meanwhile_are_dropped(rig: Rig) -> None:
    rig.live("a", "b")
    reading = rig.reading("a", 3)
    rig.leave("a")
    assert rig.scrape(a=reading) == ()
    assert rig.fail_scrape("a") == ()
    assert "a" not in rig.state.load.replicas


def test_commands_about_unknown_replicas_are_nothing(rig: Rig) -> None:
    rig.live("a")
    before = len(rig.log.entries)
    rig.leave("ghost")
    rig.drain("ghost")
    rig.drain("a", on=False)
    rig.fail_scrape("ghost", "refused")
    assert len(rig.log.entries) == before


def test_a_model_is_unserved_while_none_of_its_replicas_takes_requests(rig: Rig) -> None:
    rig.live("a", models=("m", "n"))
    rig.live("b", models=("n",))
    rig.join("late", models=("soon",))
    assert list(rig.state.unserved()) == ["soon"]
    rig.eject("a")
    assert list(rig.state.unserved()) == ["m", "soon"]
    rig.leave("a")
    assert list(rig.state.unserved()) == ["soon"]
