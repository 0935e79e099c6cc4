"""What ``--incident`` plots by step of time."""

from tests.replay.prevented import told_of
from tests.replay.rig import source_of
from tests.rig import Rig
from trioroute.replay.incident import tell_incident
from trioroute.replay.incident.plots import replicas_of


def test_what_runs_on_is_in_flight_in_steps_without_a_dispatch() -> None:
    rig = Rig().live("a", "b")
    first = [rig.go(), rig.go()]
    frozen = next(one for one in first if one.replica == "a")
    rig.finish(next(one for one in first if one.replica == "b"))
    rig.pass_s(60)
    on_b = [one for one in (rig.go(), rig.go()) if one.replica == "b"]
    for one in on_b:
        rig.finish(one)
    rig.pass_s(30)
    rig.finish(frozen, duration_ms=90_000)
    rig.pass_s(30)
    rig.finish(rig.go())
    told = told_of(rig)
    sent_ms, ended_ms = rig.at_ms - 120_000, rig.at_ms - 30_000
    for step in told.steps:
        if step.at_ms > sent_ms and step.at_ms + told.step_ms <= ended_ms:
            assert step.in_flight.get("a", 0) >= 1, step.at_ms
    quiet = [step for step in told.steps if not step.dispatches and "a" in step.in_flight]
    assert len(quiet) > 40, "most steps have no dispatch"


def test_what_ended_is_in_flight_in_no_later_step() -> None:
    rig = Rig().live("a", "b")
    for _ in range(20):
        flown = rig.pass_s(5).go()
        rig.pass_s(0.001)
        rig.finish(flown)
    told = told_of(rig)
    for step in told.steps:
        assert step.in_flight == step.dispatches


def test_a_replica_that_only_hangs_is_plotted() -> None:
    rig = Rig().live("a", "b")
    rig.go()
    rig.go()
    begin_ms = rig.at_ms + 1
    rig.pass_s(20).go()
    source = source_of(rig)
    told = tell_incident(source, begin_ms, source.last().at_ms)
    assert replicas_of(told) == ["a", "b"]
