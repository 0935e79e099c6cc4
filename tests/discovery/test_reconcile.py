"""What lists do to a fleet, without a wire: joins, leaves and drains, and who is left alone."""

import attrs
import pytest

from tests.rig import MODEL, Rig
from trioroute.discovery import Found, Picture, reconcile
from trioroute.events.words import Source
from trioroute.policy import commands as c


def found(
    name: str, port: int = 1, *, models: tuple[str, ...] = (), draining: bool = False
) -> Found:
    return Found(name=name, url=f"http://10.0.0.1:{port}", models=models, draining=draining)


def live(rig: Rig, name: str) -> Found:
    """A found replica that is LIVE, and how its source lists it."""
    rig.live(name)
    url = f"http://{name}:1"
    join = c.Join(at_ms=rig.at_ms, replica=name, url=url, models=(MODEL,), source="discovery")
    rig.router.handle(join)
    return Found(name=name, url=url, models=(MODEL,))


def picture(*seen: Found, complete: bool = True, gone: tuple[str, ...] = ()) -> Picture:
    return Picture(
        found={one.name: one for one in seen},
        whose=dict.fromkeys((one.name for one in seen), "file"),
        gone=dict.fromkeys(gone, "file"),
        complete=complete,
    )


def apply(rig: Rig, seen: Picture) -> list[str]:
    """What was asked of the core, in words; it must then have nothing more to ask."""
    asked = reconcile(rig.state, seen, rig.at_ms)
    for command in asked:
        rig.router.handle(command)
    again = reconcile(rig.state, seen, rig.at_ms)
    assert [one for one in again if not isinstance(one, c.Leave)] == []
    return [told(command) for command in asked]


def told(command: c.Command) -> str:
    match command:
        case c.Join():
            return f"join {command.replica} {command.url[7:]} ({command.by}, {command.why})"
        case c.Leave():
            return f"leave {command.replica} ({command.by}, {command.why})"
        case c.Drain():
            verb = "drain" if command.on else "undrain"
            return f"{verb} {command.replica} ({command.by}, {command.why})"
    raise AssertionError(command)


def add(rig: Rig, name: str, port: int = 1, source: Source = "discovery") -> None:
    url = f"http://10.0.0.1:{port}"
    rig.router.handle(c.Join(at_ms=rig.at_ms, replica=name, url=url, source=source))


def test_who_is_listed_joins_and_who_is_not_any_more_leaves(rig: Rig) -> None:
    assert apply(rig, picture(found("a", 1), found("b", 2))) == [
        "join a 10.0.0.1:1 (discovery, file: listed)",
        "join b 10.0.0.1:2 (discovery, file: listed)",
    ]
    assert apply(rig, picture(found("b", 2), gone=("a",))) == [
        "leave a (discovery, file: not listed any more)"
    ]
    assert list(rig.state.fleet.replicas) == ["b"]
    assert rig.state.fleet.replicas["b"].source == "discovery"
    rig.verify()


def test_a_replica_of_the_log_stays_until_every_source_has_told_a_list(rig: Rig) -> None:
    add(rig, "old")
    assert apply(rig, picture(complete=False)) == []
    assert apply(rig, picture(complete=True)) == [
        "leave old (discovery, discovery: not listed any more)"
    ]


@pytest.mark.parametrize("source", ["config", "admin"])
def test_replicas_of_others_are_never_touched(rig: Rig, source: Source) -> None:
    add(rig, "mine", 1, source)
    assert apply(rig, picture()) == []
    assert apply(rig, picture(found("mine", 2, draining=True), found("same-place", 1))) == []
    assert apply(rig, picture(gone=("mine", "same-place"))) == []
    assert rig.state.fleet.replicas["mine"].url == "http://10.0.0.1:1"


def test_who_still_answers_requests_drains_first_and_comes_back_if_listed_again(rig: Rig) -> None:
    seen = live(rig, "a")
    flown = rig.go("s")
    gone = picture(gone=("a",))
    assert apply(rig, gone) == ["drain a (discovery, file: not listed any more)"]
    assert apply(rig, gone) == []
    assert rig.state.standing("a") == "DRAINING"
    assert apply(rig, picture(seen)) == ["undrain a (discovery, file: listed again)"]
    apply(rig, gone)
    rig.finish(flown)
    rig.router.handle(c.Tick(at_ms=rig.at_ms))
    assert "a" not in rig.state.fleet.replicas


def test_a_draining_one_drains_if_it_is_known_and_does_not_join(rig: Rig) -> None:
    seen = live(rig, "a")
    rig.go("s")
    ending = picture(attrs.evolve(seen, draining=True), found("new", 2, draining=True))
    assert apply(rig, ending) == ["drain a (discovery, file: draining)"]


def test_what_an_operator_drained_stays_drained(rig: Rig) -> None:
    add(rig, "a")
    rig.router.handle(c.Drain(at_ms=rig.at_ms, replica="a", on=True))
    assert apply(rig, picture(found("a"))) == []
    assert rig.state.standing("a") == "DRAINING"


def test_a_new_address_or_model_is_a_change_not_a_new_replica(rig: Rig) -> None:
    add(rig, "a", 1)
    assert apply(rig, picture(found("a", 7, models=("m",)))) == [
        "join a 10.0.0.1:7 (discovery, file: listed)"
    ]
    assert rig.state.fleet.replicas["a"].told_models == ("m",)
    assert rig.state.fleet.joins == 1


def test_another_name_at_the_same_place_joins_when_the_old_one_has_left(rig: Rig) -> None:
    seen = live(rig, "old")
    flown = rig.go("s")
    moved = picture(attrs.evolve(seen, name="new"), gone=("old",))
    assert apply(rig, moved) == ["drain old (discovery, file: not listed any more)"]
    rig.finish(flown)
    rig.router.handle(c.Tick(at_ms=rig.at_ms))
    assert apply(rig, moved) == ["join new old:1 (discovery, file: listed)"]


def test_the_fleet_is_bounded(rig: Rig) -> None:
    many = [found(f"r{n}", n + 1) for n in range(1005)]
    assert len(apply(rig, picture(*many))) == 1000
