"""A span that ends while its router is down, or stands still: no row of it says so."""

import pytest

from tests.replay.rig import source_of
from tests.replay.test_incident_phases import seconds
from tests.rig import BEGIN_MS, Rig
from trioroute.policy import commands as c
from trioroute.replay.incident import Incident, tell_incident
from trioroute.replay.incident.lanes import DOWN
from trioroute.replay.listing import list_requests


def of(rig: Rig, until_s: float) -> Incident:
    return tell_incident(source_of(rig), 1, BEGIN_MS + round(until_s * 1000))


def gone_for_a_minute(*, stops: bool) -> Rig:
    """From 10 s on; two requests run then, unless the router ends in order."""
    rig = Rig().live("a", "b")
    rig.pass_s(9).use()
    rig.pass_s(1)
    if stops:
        rig.do(c.Stop(at_ms=rig.at_ms, cause="signal"))
    else:
        rig.go()
        rig.go()
    rig.pass_s(60).restart()
    rig.pass_s(1).same()
    return rig


@pytest.mark.parametrize("until_s", [12, 40, 69])
def test_a_span_that_ends_before_the_next_start_tells_that_the_router_had_died(
    until_s: int,
) -> None:
    rig = gone_for_a_minute(stops=False)
    told = of(rig, until_s)
    assert seconds(told.phases) == [("normal", 0, 10), ("restart", 10, until_s)]
    assert "the router died at or after" in told.phases[1].why
    assert "2 requests had no end" in told.phases[1].why
    cause = told.first_cause
    assert cause is not None
    assert (cause.kind, cause.at_ms, cause.felt) == ("died", BEGIN_MS + 10_000, True)
    assert len(cause.evidence) == 2
    assert (told.total.failed, told.running) == (2, 0)
    failed = list_requests(source_of(rig), (1, BEGIN_MS + until_s * 1000), {"outcome": "failed"})
    assert [one.request_id for one in told.harmed] == [one.request_id for one in failed.requests]
    down = [lane for lane in told.lanes if lane.state == DOWN]
    assert {(one.from_ms, one.to_ms) for one in down} == {
        (BEGIN_MS + 10_000, BEGIN_MS + until_s * 1000)
    }


def test_a_span_that_ends_after_a_stop_in_order_tells_that_nobody_listened() -> None:
    rig = gone_for_a_minute(stops=True)
    told = of(rig, 40)
    assert seconds(told.phases) == [("normal", 0, 10), ("restart", 10, 40)]
    assert told.phases[1].why.startswith("the router had stopped, and started again at ")
    assert told.first_cause is not None
    assert told.first_cause.kind == "down"
    assert told.total.failed == 0
    assert of(rig, 12).first_cause is None


def test_a_span_that_ends_in_a_standstill_tells_it() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(10)
    held = rig.go()
    rig.pass_s(20).finish(held)
    told = of(rig, 17)
    assert seconds(told.phases) == [("normal", 0, 10), ("standstill", 10, 17)]
    assert "it goes on beyond this span" in told.phases[1].why
    assert told.first_cause is not None
    assert told.first_cause.kind == "standstill"


def test_a_router_that_runs_on_behind_the_span_was_not_gone() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(10).go()
    rig.calm(20)
    told = of(rig, 12.5)
    assert seconds(told.phases) == [("normal", 0, 12.5)]
    assert told.first_cause is None
    assert told.running == 1
