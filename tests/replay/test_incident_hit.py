"""``--incident`` names who was hit, and for whom reads its report elsewhere: zone, fleet, words."""

import attrs
import pytest

import trioroute.replay.incident.running as running
from tests.replay.logs import played, source_of
from tests.replay.prevented import told_of
from tests.replay.rig import source_of as source_of_rig
from tests.rig import Flown, Rig
from trioroute.policy import commands as c
from trioroute.replay.clock import times_in_utc
from trioroute.replay.incident import Incident, tell_incident
from trioroute.replay.incident.block import clock_time
from trioroute.replay.incident.glossary import WORDS, words_of
from trioroute.replay.incident.hurt import HURT_MAX
from trioroute.replay.incident.lines import blocks_of
from trioroute.replay.incident.page import page_of
from trioroute.replay.incident.present import markdown_of


def hit() -> tuple[Rig, list[Flown]]:
    """One request breaks off, one runs out of tries, one is refused, one dies with the router, and
    one was refused before it was dispatched."""
    rig = Rig().live("a", "b")
    cut, tried, refused, orphan = rig.go("s"), rig.go(), rig.go(), rig.go()
    rig.pass_s(1).finish(cut, "upstream_cut")
    rig.pass_s(1).finish(tried, "upstream_error", cause="reset", status=None)
    rig.pass_s(1)
    name = refused.event.request_id
    rig.do(c.Refuse(at_ms=rig.at_ms, request_id=name, code="log_stalled", model="m"))
    rig.fail(refused, cause="timeout", blame="router")
    rig.pass_s(1)
    rig.do(c.Refuse(at_ms=rig.at_ms, request_id="late", code="overloaded", model="m"))
    rig.do(c.Refuse(at_ms=rig.at_ms, request_id="wrong", code="invalid_request"))
    rig.pass_s(1).restart()
    return rig, [cut, tried, refused, orphan]


def test_requests_that_were_hit_are_named_with_what_their_clients_got() -> None:
    rig, (cut, tried, refused, orphan) = hit()
    told = told_of(rig)
    last = clock_time(rig.at_ms - 1000)
    gone = f"a broken connection: the router died between {last} and this restart"
    assert [(one.request_id, one.decision, one.session, one.got) for one in told.harmed] == [
        ("q1", f"r1/{cut.number}", "s", "an answer that broke off"),
        ("q2", f"r1/{tried.number}", None, "502 upstream_failed"),
        ("q3", f"r1/{refused.number}", None, "503 log_stalled"),
        ("q4", f"r1/{orphan.number}", None, gone),
        ("late", None, None, "503 overloaded"),
    ]
    assert told.harmed[3].at_ms == rig.at_ms - 1000  # the last row before the death, not the start
    (block,) = [one for one in blocks_of(told) if one.title == "Requests that were hit"]
    assert [row[1:] for row in block.rows][:2] == [
        ("q1", f"r1/{cut.number}", "s", "an answer that broke off"),
        ("q2", f"r1/{tried.number}", "none", "502 upstream_failed"),
    ]
    assert block.said == ("the first 5 of 6",)
    for text in (page_of(told), markdown_of(told)):
        assert "502 upstream" in text
        assert "late" in text


def test_ten_are_named_the_first_that_failed_before_the_first_that_were_refused() -> None:
    rig = Rig().live("a")
    for number in range(8):
        rig.pass_s(1)
        rig.do(c.Refuse(at_ms=rig.at_ms, request_id=f"r{number}", code="overloaded", model="m"))
    for _ in range(8):
        rig.pass_s(1).finish(rig.go(), "idle_timeout", blame="router")
    names = [one.request_id for one in told_of(rig).harmed]
    assert names == ["r0", "r1", *(f"q{number}" for number in range(1, 9))]
    assert len(names) == HURT_MAX


def test_nobody_is_named_where_nobody_was_hit() -> None:
    rig = Rig().live("a")
    rig.use()
    told = told_of(rig)
    assert told.harmed == ()
    assert "Requests that were hit" not in [one.title for one in blocks_of(told)]


def outage() -> Incident:
    source = source_of(played(600, faults="replica=1,down=60..90")[0])
    return tell_incident(source, 1, source.last().at_ms)


def test_the_report_names_the_zone_the_router_its_release_and_the_fleet() -> None:
    with times_in_utc(True):
        told = outage()
        page, markdown = page_of(told), markdown_of(told)
    (router,) = told.routers
    assert router.replicas == ("gpu1", "gpu2", "gpu3", "gpu4")
    line = f"Router {router.name}, release {router.release}, 4 replicas: gpu1, gpu2, gpu3, gpu4."
    for text in (page, markdown):
        assert "All times are UTC." in text
        assert line in text
        assert text.index(line) < text.index("Phases")


def test_times_elsewhere_are_named_with_their_offset() -> None:
    rig = Rig().live("a")
    told = told_of(rig)
    begin, end = "2026-10-25T02:00:00.000+02:00", "2026-10-25T04:00:00.000+01:00"
    told = attrs.evolve(told, begin=begin, end=end)
    assert "All times are local time, UTC+02:00, then local time, UTC+01:00." in page_of(told)


def test_the_release_is_known_of_a_router_that_started_before_the_span() -> None:
    rig = Rig().live("a")
    rig.pass_s(10).use()
    told = tell_incident(source_of_rig(rig), rig.at_ms - 1000, rig.at_ms)
    assert told.routers[0].release == "0"


@pytest.mark.parametrize("steps", [1, 50_000])
def test_the_release_is_known_however_long_before_the_span_the_router_started(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "STEP_ROWS", steps)
    rig = Rig().live("a")
    for _ in range(20):
        rig.pass_s(10).use()
    told = tell_incident(source_of_rig(rig), rig.at_ms - 1000, rig.at_ms)
    assert told.routers[0].release == "0"


def test_where_the_clock_was_set_back_the_release_is_that_of_the_last_start() -> None:
    rig = Rig().live("a")
    rig.pass_s(1000).use()
    rig.at_ms -= 500_000
    rig.do(c.Start(at_ms=rig.at_ms, router="r1", release="0.2", rules=1))
    rig.configure(rig.router.state.settings)
    rig.pass_s(2000).use()
    told = tell_incident(source_of_rig(rig), rig.at_ms - 1000, rig.at_ms)
    assert told.routers[0].release == "0.2"


def test_a_start_that_was_retired_is_told_so() -> None:
    rig = Rig().live("a")
    rig.pass_s(10).use()
    told = tell_incident(source_of_rig(rig), rig.at_ms - 1000, rig.at_ms)
    (router,) = told.routers
    told = attrs.evolve(told, routers=(attrs.evolve(router, release=None),))
    text = "release not known (its start is not in the log any more), 1 replica: a."
    assert text in page_of(told)


def test_words_that_occur_are_explained_and_no_others() -> None:
    told = outage()
    page, markdown = page_of(told), markdown_of(told)
    assert WORDS["upstream_cut"] in page
    assert WORDS["upstream_cut"] in markdown
    assert WORDS["RULES"] in page
    assert WORDS["log_stalled"] not in page
    assert words_of(["fin, status 200", "2 pins"]) == (("fin", WORDS["fin"]), ("pin", WORDS["pin"]))
    assert words_of(["finished"]) == ()
