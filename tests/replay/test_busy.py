"""Replicas that answered 429 or 503: passed over for a while, and no rule of health says so."""

from io import StringIO

from rich.console import Console

from tests.replay.prevented import told_of
from tests.replay.rig import source_of
from tests.rig import BEGIN_MS, Flown, Rig
from trioroute.policy.commands import Refuse
from trioroute.replay.histories import present_replica
from trioroute.replay.incident.lines import blocks_of
from trioroute.replay.replica import tell_replica
from trioroute.replay.within import Within


def refused_by_a(rig: Rig) -> Flown:
    flown = rig.pass_s(1).go_to("a")
    rig.fail(flown, "status", status=503, blame="none", retry_after_ms=5000)
    return flown


def test_an_incident_and_the_history_of_the_replica_say_who_was_busy_and_for_how_long() -> None:
    rig = Rig().live("a", "b")
    for _ in range(2):
        rig.retry(refused_by_a(rig))
        rig.calm(20)
    said = "answered 503: busy, passed over for 5 s"
    lines = [line for line in told_of(rig).timeline if line.event == "busy"]
    assert [(line.text, line.times) for line in lines] == [(f"a: {said}", 2)]
    own = [line for line in tell_replica(source_of(rig), "a").history if line.event == "busy"]
    assert [line.text for line in own] == [said, said]
    others = tell_replica(source_of(rig), "b").history
    assert not [line for line in others if line.event == "busy"]


def test_a_history_without_rows_says_so() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(60).use()
    told = tell_replica(source_of(rig), "a", within=Within(BEGIN_MS + 30_000))
    assert told.history == ()
    screen = StringIO()
    present_replica(Console(file=screen, width=120), told)
    assert "history     none" in screen.getvalue()
    assert screen.getvalue().startswith("a, since 20"), "it names its span"


def test_refused_keys_are_told_where_their_changes_are_written() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(1)
    rig.do(Refuse(at_ms=rig.at_ms, request_id="q", code="invalid_api_key"))
    (cause,) = [block for block in blocks_of(told_of(rig)) if block.title == "First cause"]
    assert cause.said[-1].startswith("API keys are not in the log: ")
    assert "process log" in cause.said[-1]
