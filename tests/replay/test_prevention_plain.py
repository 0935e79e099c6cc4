"""Every kind of harm that occurred gets a sentence: a proved setting, or why there is none."""

from typing import get_args

import pytest

from tests.replay.prevented import found, play, said, told_of
from tests.replay.rig import source_of
from tests.replay.test_delays import answer, usual_day
from tests.rig import Flown, Rig
from trioroute.events.words import RefusalCode
from trioroute.policy.commands import Refuse
from trioroute.replay.incident import tell_incident
from trioroute.replay.words import NOT_FAILED


def sentences(rig: Rig, harm: str) -> list[str]:
    told = told_of(rig)
    texts = [one.text for one in told.prevention if one.harm == harm]
    assert set(texts) <= set(said(told))
    return texts


@pytest.mark.parametrize("code", get_args(RefusalCode))
def test_each_refusal_has_one(code: RefusalCode) -> None:
    rig = Rig().live("a")
    rig.pass_s(1).do(Refuse(at_ms=rig.at_ms, request_id="q", code=code, model="m"))
    (text,) = sentences(rig, "refused")
    assert f"r1/{rig.state.position}" in text


def one_replica(rig: Rig) -> None:
    rig.live("a")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("shutting_down", "the router was ending: only another router could have taken it"),
        ("rate_limited", "its key was at its own limit"),
        ("model_not_found", "no replica ever served that model"),
        ("invalid_request", "the request itself could not be served"),
    ],
)
def test_a_refusal_that_is_not_for_want_of_room_is_not_told_of_the_line(
    code: RefusalCode, why: str
) -> None:
    """However full the replicas are, and whoever may wait."""
    rig = play(one_replica, admission__max_in_flight=1)
    rig.go()
    rig.pass_s(1).do(Refuse(at_ms=rig.at_ms, request_id="q", code=code, model="m"))
    (text,) = sentences(rig, "refused")
    assert text.startswith(f"no setting of the router prevents that r1/{rig.state.position} was")
    assert why in text


@pytest.mark.parametrize(
    "outcome",
    ["upstream_error", "upstream_cut", "upstream_empty", "first_byte_timeout", "idle_timeout"],
)
def test_each_failed_end_has_one(outcome: str) -> None:
    for blame in ("replica", "router"):
        rig = Rig().live("a", "b")
        flown = rig.pass_s(1).go()
        rig.pass_s(1).finish(flown, outcome, blame=blame)  # type: ignore[arg-type]  # of a table
        assert outcome not in NOT_FAILED
        (text,) = sentences(rig, "end")
        assert f"r1/{flown.number}" in text
        assert f"{outcome}, " not in text, "the log's own words are no sentence"


def test_a_request_that_nobody_took_after_its_attempt_has_one() -> None:
    rig = Rig().live("a", "b")
    flown = rig.pass_s(1).go()
    rig.pass_s(1).fail(flown, cause="reset")
    (text,) = sentences(rig, "lost")
    assert f"r1/{flown.number} failed ({flown.replica} reset the connection): " in text


def test_requests_that_were_tried_again_have_one_of_the_first() -> None:
    rig = Rig().live("a", "b")
    first = rig.pass_s(1).go()
    rig.fail(first, status=502)
    again = rig.retry(first)
    assert isinstance(again, Flown)
    rig.finish(again)
    (text,) = sentences(rig, "retried")
    assert f"r1/{again.number} had to be tried again: {first.replica} answered 502" in text


def lined_up(rig: Rig) -> None:
    """The first of two that wait finds two replicas that run as many as they may."""
    rig.live("a", "b")
    for _ in range(40):
        rig.pass_s(1).finish(rig.go(), ttfb_ms=50, duration_ms=400)
    running = [rig.go() for _ in range(2 * rig.state.settings.admission.max_in_flight)]
    rig.pass_s(1)
    came_ms = rig.at_ms
    rig.pass_s(4)
    for flown in running:
        rig.finish(flown, ttfb_ms=50, duration_ms=5000)
    first = rig.go(waited_ms=rig.at_ms - came_ms)
    second = rig.go(waited_ms=rig.at_ms - came_ms - 500)
    rig.pass_s(0.4)
    for flown in (first, second):
        rig.finish(flown, ttfb_ms=50, duration_ms=400)


def test_a_delay_in_line_names_the_number_with_which_it_had_not_stood_there() -> None:
    rig = play(lined_up, admission__max_in_flight=1)
    one = found(told_of(rig), "admission.max_in_flight")
    assert (one.harm, one.now, one.instead, one.times) == ("delayed", "1", "2", 2)
    assert "stood in line for 4 s" in one.text


def test_a_delay_in_line_behind_others_names_no_number() -> None:
    rig = play(lined_up, admission__max_in_flight=1)
    running = [rig.pass_s(1).go() for _ in range(2)]
    rig.pass_s(4)
    for flown in running:
        rig.finish(flown, ttfb_ms=50, duration_ms=4000)
    ahead = rig.go(waited_ms=100)
    rig.finish(ahead, ttfb_ms=50, duration_ms=400)
    begin_ms = rig.at_ms
    answer(rig.pass_s(1), rig.go(waited_ms=1080), 50)
    told = tell_incident(source_of(rig), begin_ms + 1, rig.at_ms)
    (one,) = [item for item in told.prevention if item.harm == "delayed"]
    assert one.setting is None
    assert "stood in line for 1 s behind others" in one.text


def test_a_delay_of_a_slow_replica_and_one_of_earlier_attempts_have_one_each() -> None:
    rig = usual_day()
    answer(rig.pass_s(1), slow := rig.go(), 3000)
    first = rig.go()
    rig.pass_s(5).fail(first, status=502)
    again = rig.retry(first)
    assert isinstance(again, Flown)
    answer(rig, again, 50)
    texts = sentences(rig, "delayed")
    assert any(
        f"{slow.replica} took 3 s to its first byte where 50 ms is" in text for text in texts
    )
    assert any("its earlier attempts took 5 s to fail" in text for text in texts)
    assert len(texts) == 2
