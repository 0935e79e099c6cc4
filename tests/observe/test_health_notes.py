"""Health in the process log."""

import logging

import pytest

from tests.rig import Rig
from trioroute.observe import HealthNotes


def test_every_step_out_of_traffic_and_back_is_a_line(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.router.listeners.append(HealthNotes(rig.state, "the log").listen)
    with caplog.at_level(logging.INFO, "trioroute.health"):
        rig.live("a", "b")
        rig.eject("a")
        rig.calm(60, "a", "b")
        rig.drain("b")
        rig.eject("a")
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert ("INFO", "replica a LIVE") in lines
    out = "replica a EJECTED for 30 s at least (refused; eject 1 in a row)"
    assert ("WARNING", f"{out}: trioroute replay the log --replica a") in lines
    assert ("INFO", "replica a PROBING: back with limited traffic") in lines
    assert ("INFO", "replica b DRAINING (by admin)") in lines
    assert lines[-2][1].startswith("replica a EJECTED for 60 s")
    assert lines[-1] == (
        "ERROR",
        "nobody is routable: the whole fleet (2 replicas) is out of traffic",
    )


def test_a_model_that_lost_its_last_replica_is_named(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.router.listeners.append(HealthNotes(rig.state, "log").listen)
    rig.live("a", "b")
    rig.live("c", models=("rag", "rag-adapter"))
    rig.eject("c")
    told = "nobody serves rag and 1 other model: its whole pool is out of traffic"
    assert caplog.messages[-1] == told
    rig.eject("a")
    assert sum("nobody" in line for line in caplog.messages) == 1, "b still serves the other model"


def test_a_stall_and_its_end_are_a_line_each(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.router.listeners.append(HealthNotes(rig.state, "the log").listen)
    with caplog.at_level(logging.INFO, "trioroute.health"):
        rig.live("a", "b")
        rig.scrape(a=rig.reading("a", 2, 0, tokens=100), b=(0, 0))
        rig.calm(90)
        rig.scrape(a=rig.reading("a", 2, 0, tokens=101), b=(0, 0))
        rig.calm(10)
    lines = [(r.levelname, r.getMessage()) for r in caplog.records if "stalled" in r.getMessage()]
    began = "replica a stalled: its engine says 2 running, and no token came for 60 s"
    assert [level for level, _ in lines] == ["WARNING", "INFO"]
    assert lines[0][1].startswith(began)
    again = "replica a stalled no more: it generates tokens again, after 90 s without a token"
    assert lines[1][1] == again


def test_a_drain_of_the_last_replica_of_a_model_says_whom_nobody_serves(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.router.listeners.append(HealthNotes(rig.state, "the log").listen)
    rig.live("a", "b")
    rig.live("c", models=("rag",))
    rig.drain("a")
    assert not [line for line in caplog.messages if "nobody" in line], "b serves it still"
    rig.drain("c")
    assert caplog.messages[-1] == "nobody serves rag: its whole pool is out of traffic"


def test_a_fleet_that_was_never_reached_is_an_error_once(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.router.listeners.append(HealthNotes(rig.state, "the log").listen)
    rig.join("a", "b")
    rig.fail_scrape("a", "refused")
    rig.fail_scrape("a", "refused")
    rig.fail_scrape("b", "refused")
    assert not caplog.messages, "b may be about to start"
    for _ in range(3):
        rig.fail_scrape("b", "refused")
    (line,) = caplog.records
    url = rig.state.fleet.replicas["b"].url
    assert line.levelname == "ERROR"
    assert line.getMessage() == (
        f"nobody is routable: the fleet (2 replicas) was never reached ({url}: refused): look at "
        "the addresses, and whether the engines run"
    )


def test_one_that_is_served_by_another_replica_is_no_error(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.router.listeners.append(HealthNotes(rig.state, "the log").listen)
    rig.live("a")
    rig.join("b")
    for _ in range(5):
        rig.fail_scrape("b", "refused")
    assert not [line for line in caplog.messages if "nobody" in line]
