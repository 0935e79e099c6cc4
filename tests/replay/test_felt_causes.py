"""The first cause is one whose harm clients felt; trouble without harm is told after it."""

from tests.replay.prevented import said, told_of
from tests.replay.rig import source_of
from tests.replay.test_delays import answer, usual_day
from tests.rig import Flown, Rig
from trioroute.policy import commands as c
from trioroute.replay.incident import tell_incident
from trioroute.replay.incident.lines import blocks_of
from trioroute.replay.incident.told import FirstCause, Incident


def cause_of(told: Incident) -> FirstCause:
    assert told.first_cause is not None
    return told.first_cause


def rescued(rig: Rig, times: int = 2) -> str:
    """A replica refuses a connection and is ejected; the requests that it had go on elsewhere."""
    running = [rig.go() for _ in range(2 * times)]
    name = running[0].replica
    for flown in running:
        if flown.replica != name:
            rig.finish(flown)
    for flown in running:
        if flown.replica == name:
            rig.fail(flown, cause="refused")
            again = rig.retry(flown)
            assert isinstance(again, Flown)
            rig.finish(again)
    return name


def test_an_eject_whose_requests_all_went_on_elsewhere_is_told_after_what_did_harm() -> None:
    rig = Rig().live("a", "b", "c")
    gone = rescued(rig.pass_s(1))
    others = [name for name in ("a", "b", "c") if name != gone]
    while (flown := rig.pass_s(5).go()).replica != others[0]:
        rig.finish(flown)
    rig.finish(flown, "upstream_cut")
    told = told_of(rig)
    cause = cause_of(told)
    assert (cause.kind, cause.felt) == ("failure", True)
    assert f"r1/{flown.number} failed" in cause.text
    (line,) = cause.unfelt
    assert line.text.startswith(f"{gone} EJECTED")
    assert line.text.endswith(
        "no client was failed or refused by it: 2 requests that failed there went on elsewhere"
    )
    titles = [block.title for block in blocks_of(told)]
    assert titles.index("Trouble without harm") == titles.index("First cause") + 1


def test_refusals_while_a_replica_is_out_are_felt_and_those_long_after_are_not() -> None:
    for back in (False, True):
        rig = Rig().live("a", "b")
        gone = rescued(rig.pass_s(1))
        if back:
            rig.pass_s(31).scrape(a=(0, 0), b=(0, 0))
            rig.pass_s(3).scrape(a=(0, 0), b=(0, 0))
            rig.pass_s(60).tick()
            assert rig.state.standing(gone) in ("PROBING", "LIVE")
        rig.pass_s(5)
        rig.do(c.Refuse(at_ms=rig.at_ms, request_id="q", code="overloaded", model="m"))
        cause = cause_of(told_of(rig))
        assert cause.kind == ("overload" if back else "eject")
        assert [one.event for one in cause.unfelt] == (["eject"] if back else [])


def test_where_no_client_was_hurt_the_first_trouble_is_told_and_that() -> None:
    rig = Rig().live("a", "b", "c")
    gone = rescued(rig.pass_s(1))
    told = told_of(rig)
    cause = cause_of(told)
    assert cause.text.startswith(f"{gone} EJECTED")
    assert not cause.felt
    (block,) = [one for one in blocks_of(told) if one.title == "First cause"]
    assert block.said[-1].startswith("no client was failed, refused or delayed by it")


def test_where_nobody_was_failed_or_refused_a_delay_is_felt() -> None:
    rig = usual_day()
    first = rig.pass_s(1).go()
    rig.pass_s(5).fail(first, cause="refused")
    again = rig.retry(first)
    assert isinstance(again, Flown)
    answer(rig, again, 50)
    told = told_of(rig)
    assert told.total.delayed == 1
    assert cause_of(told).felt


def test_trouble_that_only_delayed_is_not_called_harmless_where_others_failed() -> None:
    """A request fails; 10 s later the router stands still for 12 s with one under way."""
    rig = usual_day()
    rig.scrape(a=(0, 0), b=(0, 0))
    rig.finish(rig.go(), "upstream_cut")
    rig.calm(10)
    held = rig.go()
    rig.pass_s(12).finish(held, ttfb_ms=11900, duration_ms=12000)
    rig.calm(4)
    told = told_of(rig)
    cause = cause_of(told)
    assert (cause.kind, cause.felt, cause.unfelt) == ("failure", True, ())
    (line,) = cause.also
    assert line.event == "standstill"
    assert line.text.endswith("; no client was failed or refused by it, but requests were delayed")
    assert "Trouble without harm" not in [block.title for block in blocks_of(told)]


def test_all_trouble_that_clients_felt_is_told_and_not_the_first_alone() -> None:
    """One request is refused; a minute later each replica fails and is ejected."""
    rig = Rig().live("a", "b")
    rig.pass_s(1).do(c.Refuse(at_ms=rig.at_ms, request_id="q", code="overloaded", model="m"))
    rig.calm(60)
    for _ in range(2):
        flown = rig.pass_s(1).go()
        rig.finish(flown, "upstream_error")
        rig.eject(flown.replica)
    told = told_of(rig)
    cause = cause_of(told)
    assert cause.kind == "overload"
    assert [line.text.split(" for")[0] for line in cause.also] == ["a EJECTED", "b EJECTED"]
    (block,) = [one for one in blocks_of(told) if one.title == "Other trouble"]
    assert len(block.rows) == 2


def test_what_was_under_way_and_harmed_nobody_is_not_said_to_be_felt() -> None:
    """Replica a is PROBING as the span begins and well soon after; then b is slow."""
    rig = usual_day()
    rig.probing("a")
    begin_ms = rig.pass_s(1).at_ms
    rig.calm(120)
    assert rig.standing("a") == "LIVE"
    answer(rig, rig.go_to("b"), 3000)
    told = tell_incident(source_of(rig), begin_ms, rig.at_ms)
    cause = cause_of(told)
    assert told.total.delayed == 1
    assert (cause.kind, cause.felt) == ("earlier", False)
    assert not any("ask from an earlier time" in text for text in said(told))


def test_an_eject_that_has_nothing_to_do_with_what_was_under_way_is_the_cause() -> None:
    """Nobody is failed or refused by either."""
    rig = usual_day()
    rig.live("c")
    rig.eject("a")
    begin_ms = rig.pass_s(1).at_ms
    rig.pass_s(2).eject("b")
    cause = cause_of(tell_incident(source_of(rig), begin_ms, rig.at_ms))
    assert (cause.kind, cause.felt) == ("eject", False)
    assert cause.text.startswith("b EJECTED")
    assert [line.event for line in cause.before] == ["earlier"]
