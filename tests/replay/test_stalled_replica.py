"""An engine that freezes: no event says so, and every report does."""

import pytest

from tests.observe.rig import ListLog
from tests.replay.prevented import told_of
from tests.replay.rig import source_of
from tests.replay.test_incident_phases import refuse
from tests.rig import BEGIN_MS, Flown, Rig
from trioroute.cli.replica import _show
from trioroute.observe import view
from trioroute.replay.incident import tell_incident
from trioroute.replay.incident.course import OVERLOAD, STILL
from trioroute.replay.incident.lines import blocks_of
from trioroute.replay.replica import tell_replica
from trioroute.replay.within import Within


def frozen(still_s: int = 75) -> tuple[Rig, Flown, int]:
    """a runs one request and its tokens stand still from the time told; then it goes on."""
    rig = Rig().live("a", "b")
    rig.pass_s(5)
    flown = rig.go_to("a")
    rig.scrape(a=rig.reading("a", 1, 0, tokens=100), b=(0, 0))
    since_ms = rig.at_ms
    rig.calm(still_s)
    rig.pass_s(1)
    rig.scrape(a=rig.reading("a", 1, 0, tokens=120), b=(0, 0))
    rig.finish(flown, ttfb_ms=20, duration_ms=still_s * 1000)
    return rig, flown, since_ms


def test_an_incident_has_the_phase_and_the_cause_with_the_requests_that_stand_still() -> None:
    rig, flown, since_ms = frozen()
    told = told_of(rig)
    (phase,) = [one for one in told.phases if one.name == STILL]
    assert (phase.from_ms, phase.to_ms) == (since_ms, rig.at_ms)
    assert phase.why.startswith("a: ")
    assert told.first_cause is not None
    assert (told.first_cause.kind, told.first_cause.at_ms) == ("stall", since_ms)
    (line,) = told.first_cause.evidence
    assert line.text.startswith(f"r1/{flown.number} ({flown.event.request_id})")
    assert [(one.replica, one.state) for one in told.lanes if one.state == "STALLED"] == [
        ("a", "STALLED")
    ]
    (prevention,) = [one for one in told.prevention if one.harm == "cause"]
    assert "eject.stall_after" in prevention.text
    assert "nothing happened" not in str([block.said for block in blocks_of(told)])


def test_a_stall_is_told_from_when_tokens_stood_still_though_an_overload_lies_between() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(5)
    flown = rig.go_to("a")
    rig.scrape(a=rig.reading("a", 1, 0, tokens=100), b=(0, 0))
    since_ms = rig.at_ms
    rig.calm(30, "b")
    refused_ms = rig.at_ms
    refuse(rig)
    rig.calm(45)
    rig.finish(flown, ttfb_ms=20, duration_ms=75_000)
    told = told_of(rig)
    named = [(one.name, one.from_ms) for one in told.phases]
    at = named.index((STILL, since_ms))
    assert [name for name, _ in named[at : at + 3]] == [STILL, OVERLOAD, STILL]
    assert told.phases[at].to_ms == refused_ms
    assert "normal" not in [one.name for one in told.phases if one.from_ms >= since_ms]


def test_a_span_that_begins_in_a_stall_says_so() -> None:
    rig, _, since_ms = frozen()
    told = tell_incident(source_of(rig), since_ms + 70_000, rig.at_ms)
    assert told.first_cause is not None
    assert told.first_cause.kind == "earlier"
    assert "a is stalled, no token since" in told.first_cause.text
    assert told.phases[0].name == STILL


def test_a_replica_that_generates_slowly_is_not_stalled() -> None:
    rig, _, _ = frozen(50)
    told = told_of(rig)
    assert [one.name for one in told.phases if one.name == STILL] == []
    assert told.first_cause is None


@pytest.mark.parametrize("since_s", [0, 30])
def test_the_story_of_a_replica_says_when_it_was_stalled(since_s: int) -> None:
    rig, _, since_ms = frozen()
    within = Within(BEGIN_MS + since_s * 1000) if since_s else Within()
    found = [
        line
        for line in tell_replica(source_of(rig), "a", within=within).history
        if line.event == "stall"
    ]
    assert [line.at_ms for line in found] == [since_ms + 60_000, rig.at_ms]
    assert found[0].text.startswith(
        "stalled: its engine says 1 running, and no token came for 60 s"
    )
    assert found[1].text == (
        "stalled no more: it generates tokens again, after 76 s without a token"
    )
    others = tell_replica(source_of(rig), "b").history
    assert not [line for line in others if line.event == "stall"]


def test_the_table_of_replicas_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    rig = Rig().live("a", "b")
    rig.scrape(a=rig.reading("a", 1, 0, tokens=100), b=(0, 0))
    rig.calm(61)
    _show(view(rig.state, rig.at_ms, ListLog())["replicas"])
    a, b = capsys.readouterr().out.splitlines()[1:]
    assert "LIVE, stalled" in a
    assert "stalled" not in b
