"""A router that stood still is told from the hole that it left in the log."""

from io import StringIO

import pytest

from tests.replay.rig import STREAM, store_of
from tests.replay.test_delays import answer, usual_day
from tests.replay.test_incident import phases, whole
from tests.rig import Flown, Rig
from trioroute.policy import commands as c
from trioroute.replay.clock import local_iso
from trioroute.replay.explain import tell_all
from trioroute.replay.histories import present_listed
from trioroute.replay.incident import Incident
from trioroute.replay.incident.course import Course
from trioroute.replay.incident.lines import blocks_of
from trioroute.replay.incident.standstill import Standstills
from trioroute.replay.incident.story import Story
from trioroute.replay.listing import list_requests
from trioroute.replay.moment import tell_moment
from trioroute.replay.plain import Flight
from trioroute.replay.read import NotFound, Source
from trioroute.replay.replica import tell_replica
from trioroute.replay.requested import Listed
from trioroute.replay.session import tell_session
from trioroute.terminal import Terminal

ALLOWED_S = 6
"""scrape.interval + scrape.timeout + 1 s, as they are by default."""


def held_up(seconds: float, *, running: bool = True, restarts: bool = False) -> Rig:
    rig = Rig().live("a", "b")
    flown = rig.go()
    if not running:
        rig.finish(flown)
    rig.pass_s(1).scrape(a=(1, 0), b=(0, 0))
    rig.pass_s(seconds)
    if restarts:
        rig.restart()
    later = rig.go()
    if running and not restarts:
        rig.finish(flown)
    rig.finish(later)
    rig.pass_s(1).scrape(a=(0, 0), b=(0, 0))
    return rig


def told(rig: Rig) -> Incident:
    return whole(Source(store_of(rig.log.entries)))


def test_a_hole_in_which_requests_ran_is_a_phase_and_the_first_cause() -> None:
    rig = held_up(7)
    found = told(rig)
    assert phases(found) == ["normal", "standstill", "normal"]
    still = found.phases[1]
    assert still.to_ms - still.from_ms == 7000
    assert still.why.startswith("the router stood still for 7 s: no row is between ")
    assert "though 1 request ran and scrapes are due every 3 s" in still.why
    cause = found.first_cause
    assert cause is not None
    assert (cause.kind, cause.at_ms, cause.text) == ("standstill", still.from_ms, still.why)
    (ran,) = cause.evidence
    assert ran.text.endswith((" ran on a", " ran on b"))


def test_what_scrapes_allow_is_no_hole() -> None:
    assert told(held_up(ALLOWED_S)).first_cause is None
    assert told(held_up(ALLOWED_S + 0.001)).first_cause is not None


def test_an_idle_router_and_one_that_was_not_there_did_not_stand_still() -> None:
    assert phases(told(held_up(60, running=False))) == ["normal"]
    assert "standstill" not in phases(told(held_up(60, restarts=True)))


def test_rows_that_are_missing_prove_nothing() -> None:
    rig = held_up(7)
    course, story = Course("normal", rig.at_ms), Story()
    flights: dict[int, Flight] = {4: (("a", ("m", None), "load", None), "req-1")}
    still = Standstills(STREAM, rig.state, story, course, flights)
    version = rig.state.position + 1
    still.look(version + 1, rig.at_ms, rig.at_ms + 60_000)
    assert story.lines == []
    still.look(version, rig.at_ms, rig.at_ms + 60_000)
    assert len(story.lines) == 1


def short(rig: Rig, *, told_first: bool) -> list[Flown]:
    """Both replicas run a request as the router stands still for 3 s, too short to be proved by a
    hole. Its row comes among those of what had waited."""
    running = [rig.pass_s(1).go_to("a"), rig.go_to("b")]
    rig.pass_s(3)
    stood = c.StandStill(at_ms=rig.at_ms, for_ms=2900)
    if told_first:
        rig.do(stood)
    for flown in running:
        rig.finish(flown, ttfb_ms=2980, duration_ms=3000)
    if not told_first:
        rig.do(stood)
    return running


@pytest.mark.parametrize("told_first", [True, False])
def test_one_that_the_router_measured_is_told_and_no_replica_is_blamed(told_first: bool) -> None:
    rig = usual_day()
    running = short(rig, told_first=told_first)
    rig.pass_s(10).same()
    found = told(rig)
    assert phases(found) == ["normal", "standstill", "normal"]
    still = found.phases[1]
    assert still.to_ms - still.from_ms == 2900
    assert "the router itself stood still for 2.9 s, as it measured" in still.why
    cause = found.first_cause
    assert cause is not None
    assert (cause.kind, cause.at_ms, cause.felt) == ("standstill", still.from_ms, True)
    assert {one.decision for one in found.latest} == {f"r1/{one.number}" for one in running}
    assert {one.stood_ms for one in found.latest} == {2880}
    (text,) = [one.text for one in found.prevention if one.harm == "delayed"]
    assert "was delayed: the router itself stood still for 2.8 s of it" in text
    assert not any("to its first byte" in one.text for one in found.prevention)
    (block,) = [one for one in blocks_of(found) if one.title == "The latest first bytes"]
    assert "router still" in block.columns


def test_one_request_and_session_and_replica_and_moment_tell_it() -> None:
    rig = Rig().live("a")
    flown = rig.pass_s(1).go("s")
    rig.pass_s(3).do(c.StandStill(at_ms=rig.at_ms, for_ms=2900))
    stood_ms = rig.at_ms
    rig.finish(flown, ttfb_ms=2990, duration_ms=3000)
    behind = rig.pass_s(0.01).go()
    rig.finish(behind)
    rig.pass_s(20)
    later = rig.go("t")
    rig.finish(later)
    source = Source(store_of(rig.log.entries))
    met, came, none = (
        one.followed.stood
        for one in tell_all(source, STREAM, (flown.number, behind.number, later.number))
    )
    assert (met or "").startswith("the router itself stood still for 2.9 s of this time (")
    assert (came or "").startswith("it was seen 10 ms after the router itself had stood still for")
    assert none is None
    assert [one.at_ms for one in tell_session(source, "s", None).stood] == [stood_ms]
    assert tell_session(source, "t", None).stood == ()
    (line,) = [one for one in tell_replica(source, "a").history if one.event == "StoodStill"]
    assert "stood still for 2.9 s up to here" in line.text
    (then,) = tell_moment(source, stood_ms - 1000)
    assert (then.stood or "").startswith("the router itself stood still then, from ")
    assert [one.stood for one in tell_moment(source, stood_ms)] == [None]


def test_an_unknown_replica_is_not_known_by_it() -> None:
    rig = held_up(7)
    rig.do(c.StandStill(at_ms=rig.at_ms, for_ms=2000))
    with pytest.raises(NotFound, match="no replica 'zz'"):
        tell_replica(Source(store_of(rig.log.entries)), "zz")


def test_one_that_a_hole_proves_is_not_told_twice() -> None:
    rig = held_up(7)
    rig.do(c.StandStill(at_ms=rig.at_ms - 1000, for_ms=6900))
    found = told(rig)
    assert phases(found) == ["normal", "standstill", "normal"]
    assert found.first_cause is not None
    assert found.first_cause.also == ()


def test_a_slow_replica_is_not_excused_by_a_standstill_at_another_time() -> None:
    rig = usual_day()
    short(rig, told_first=True)
    answer(rig.pass_s(20), slow := rig.go_to("b"), 3000)
    found = told(rig)
    texts = [one.text for one in found.prevention if one.harm == "delayed"]
    assert any(f"r1/{slow.number}" in text and "b took 3 s" in text for text in texts)
    assert {one.decision: one.stood_ms for one in found.latest}[f"r1/{slow.number}"] == 0


def paused(*seconds: float) -> Rig:
    """Answers came late, and the router says that it did nothing for so long."""
    rig = usual_day()
    late = rig.go()
    for each in seconds:
        rig.pass_s(each).do(c.StandStill(at_ms=rig.at_ms, for_ms=round(each * 1000)))
    rig.finish(late, ttfb_ms=2000, duration_ms=2500)
    return rig


def delayed(rig: Rig, from_ms: int = 0, to_ms: int | None = None) -> Listed:
    asked = (from_ms, rig.at_ms if to_ms is None else to_ms)
    return list_requests(Source(store_of(rig.log.entries)), asked, {"outcome": "delayed"})


def test_who_asks_for_the_delayed_is_told_that_the_router_itself_stood_still() -> None:
    rig = paused(1.5)
    listed = delayed(rig)
    (one,) = listed.stood_still
    assert (one.at_ms, one.for_ms) == (rig.at_ms, 1500)
    console = Terminal(file=(shown := StringIO()), width=400)
    present_listed(console, listed)
    assert f"the router itself stood still for 1.5 s until {local_iso(one.at_ms)[:23]}" in (
        shown.getvalue()
    )
    assert f"({one.place}): who came meanwhile waited longer" in shown.getvalue()
    assert delayed(paused()).stood_still == ()


def test_of_many_standstills_the_longest_are_told() -> None:
    rig = paused(*(1 + number / 10 for number in range(20)))
    told = [one.for_ms for one in delayed(rig).stood_still]
    assert told == [2900, 2800, 2700, 2600, 2500]


def test_one_that_began_in_the_span_and_ended_behind_it_is_told_and_a_later_one_is_not() -> None:
    rig = paused()
    to_ms = rig.at_ms
    rig.pass_s(3).do(c.StandStill(at_ms=rig.at_ms, for_ms=3500))
    rig.pass_s(60).do(c.StandStill(at_ms=rig.at_ms, for_ms=2000))
    assert [one.for_ms for one in delayed(rig, 0, to_ms).stood_still] == [3500]


def test_where_nobody_was_delayed_by_the_rows_a_standstill_is_told_all_the_same() -> None:
    rig = usual_day()
    rig.pass_s(2).do(c.StandStill(at_ms=rig.at_ms, for_ms=2000))
    with pytest.raises(NotFound, match=r"no request with .* the router itself stood still for 2 s"):
        delayed(rig)
