"""A router that stood still is told from the hole that it left in the log."""

from tests.replay.rig import STREAM, store_of
from tests.replay.test_incident import phases, whole
from tests.rig import Rig
from trioroute.replay.incident import Incident
from trioroute.replay.incident.course import Course
from trioroute.replay.incident.standstill import Standstills
from trioroute.replay.incident.story import Story
from trioroute.replay.plain import Flight
from trioroute.replay.read import Source

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
