"""What ``--incident`` says of settings: which became others, and where none did."""

from tests.replay.prevented import told_of
from tests.replay.rig import source_of
from tests.rig import Rig, settings
from trioroute import events as e
from trioroute.policy.commands import Configure, Join, Reconfigure, Stop
from trioroute.projections import State
from trioroute.replay.window import Begun, Window


def reload(rig: Rig, in_force: e.InForce) -> None:
    same = tuple(
        Join(at_ms=rig.at_ms, replica=name, url=f"http://{name}:1", models=("m",))
        for name in rig.state.fleet.replicas
    )
    rig.do(Reconfigure(at_ms=rig.at_ms, settings=in_force, replicas=same, digest="d", by="signal"))


def said(rig: Rig) -> list[str]:
    return [line.text for line in told_of(rig).timeline if line.event == "Configured"]


def test_a_reload_tells_what_each_setting_was_and_is() -> None:
    rig = Rig().live("a")
    before = e.InForce()
    reload(
        rig.pass_s(1),
        settings(admission={"max_in_flight": 8}, eject={"cooldown_ms": 45_000}),
    )
    was = before.admission.max_in_flight
    (text,) = said(rig)
    assert text.startswith("other settings in force: ")
    assert text.endswith(", by signal")
    assert f"admission.max_in_flight {was} -> 8" in text
    assert "eject.cooldown 30s -> 45s" in text


def test_a_reload_of_the_same_settings_says_what_the_log_does_not_hold() -> None:
    rig = Rig().live("a")
    reload(rig.pass_s(1), e.InForce())
    (text,) = said(rig)
    assert text == (
        "settings in force again, all that the log holds as before (API keys are not in it), by "
        "signal"
    )


def spills(rig: Rig) -> None:
    """Session s is pinned where more run than its slack allows."""
    pinned = rig.go("s")
    rig.finish(pinned)
    for _ in range(6):
        rig.pass_s(1).go("s")


def test_a_restart_with_the_same_settings_put_no_other_ones_in_force() -> None:
    rig = Rig().live("a", "b")
    spills(rig)
    rig.do(Stop(at_ms=rig.at_ms, cause="SIGTERM"))
    rig.pass_s(2).restart()
    rig.do(Configure(at_ms=rig.at_ms, settings=e.InForce()))
    rig.pass_s(1).same()
    spills(rig)
    taken = told_of(rig).retaken
    assert taken
    assert {one.ended for one in taken} == {""}
    assert said(rig) == []
    before = taken[0].decisions
    reload(rig, settings(eject={"cooldown_ms": 45_000}))
    spills(rig)
    taken = told_of(rig).retaken
    assert {one.ended for one in taken} == {""}, "it acts on no choice"
    assert {one.decisions for one in taken} == {before + 7}
    reload(rig, settings(pins={"prefix_ttl_ms": 45_000}))
    spills(rig)
    last = rig.log.entries
    place = max(n for n, entry in enumerate(last, 1) if entry.kind == "Configured")
    ended = {one.ended for one in told_of(rig).retaken}
    assert ended == {f"other settings came into force at r1/{place}"}


def test_a_setting_found_after_a_reload_is_not_measured_on_what_was_before_it() -> None:
    """Without a limit of requests there, a limit of two would only have made spills."""
    rig = Rig().live("a", "b")
    rig.use("s")
    for flown in [rig.pass_s(1).go("s") for _ in range(6)]:
        rig.finish(flown)
    reload(rig, settings(admission={"max_in_flight": 1}))
    rig.scrape(a=(0, 0), b=(0, 0))
    for name in ("t", "t"):
        rig.pass_s(1).go(name)
    told = told_of(rig)
    found = {one.setting: one.now for one in told.prevention if one.harm == "pin"}
    assert found["admission.max_in_flight"] == "1"
    assert found["policy.slack.session"] == "1"
    measured = {one.setting for one in told.retaken}
    assert "policy.slack.session" in measured
    assert "admission.max_in_flight" not in measured


def ended_at(*events: e.Event) -> str | None:
    """What ends a simulation that has begun, with the settings of ``State()`` in force."""
    window = Window()
    window.begun = Begun("r1/1", 1, "m", e.InForce(), ("a",), None)
    rig = Rig()
    record = next(iter(source_of(rig).records(0, 1)))
    for event in events:
        window.row(record, event, State())
    return window.ended


def test_a_simulation_goes_on_where_the_same_settings_are_put_in_force() -> None:
    again = e.Configured(settings=e.InForce(), by="signal")
    assert ended_at(again) is None
    other = e.Configured(settings=settings(eject={"cooldown_ms": 45_000}), by="signal")
    assert ended_at(again, other) == "r1/1: there other settings came into force"
    assert ended_at(e.Started(router="r1", release="0", rules=1)) == (
        "r1/1: there the router started again"
    )
