"""What ``--incident`` says would have kept harm smaller: only what the rows show, counted."""

import pytest

import trioroute.replay.incident.prevention as prevention
from tests.replay.prevented import play, said, told_of
from tests.rig import Flown, Rig
from trioroute.events import InForce
from trioroute.events.words import Outcome
from trioroute.replay.incident import Incident
from trioroute.replay.incident.told import Prevention
from trioroute.settings import with_changes

SETTING = "eject.request_failures"


def pinned(rig: Rig) -> tuple[str, str]:
    """Two sessions, one on each of two replicas."""
    rig.live("a", "b")
    first = rig.go("one")
    rig.finish(first)
    second = rig.go("two", prefix=None)
    if second.replica == first.replica:
        rig.finish(second)
        second = rig.go("three")
    rig.finish(second)
    return first.replica, second.replica


def dying(rig: Rig, *, other_fails: bool = False) -> None:
    """``one`` goes to a replica that fails every request, from the first failure to the third."""
    bad, good = pinned(rig)
    keeps = next(key for key in ("two", "three") if rig.session_pin(key) == good)
    for _ in range(3):
        rig.pass_s(1)
        failing = rig.go("one")
        assert failing.replica == bad
        beside = rig.go(keeps)
        assert beside.replica == good
        rig.finish(failing, "upstream_error")
        rig.finish(beside, "upstream_error" if other_fails else "ok")


def lessened(told: Incident) -> list[Prevention]:
    return [one for one in told.prevention if one.lessens]


def test_an_eject_at_the_first_failure_would_have_kept_the_next_requests_elsewhere() -> None:
    rig = play(dying)
    told = told_of(rig)
    (one,) = lessened(told)
    assert (one.harm, one.setting, one.now, one.instead) == ("eject", SETTING, "3", "1")
    assert one.text.startswith(f"1 instead of 3 requests would have failed on a with {SETTING}=1")
    assert "2 requests that failed would, decided again without it, have gone to b" in one.text
    assert "which answered all 2 that they got meanwhile" in one.text
    assert one.text in said(told)
    assert one.text in told.hints


def test_played_again_under_it_as_few_fail_there() -> None:
    rig = Rig(with_changes(InForce(), {SETTING: "1"}))
    bad, _ = pinned(rig)
    failed = 0
    for _ in range(3):
        flown = rig.pass_s(1).go("one")
        assert isinstance(flown, Flown)
        failed += flown.replica == bad
        rig.finish(flown, "upstream_error" if flown.replica == bad else "ok")
    assert failed == 1


def test_nothing_is_proposed_where_the_others_failed_too() -> None:
    assert not lessened(told_of(play(lambda rig: dying(rig, other_fails=True))))


def test_nothing_is_proposed_that_ejects_who_recovers_by_itself() -> None:
    def script(rig: Rig) -> None:
        dying(rig)
        rig.probing("a")
        rig.calm(18)
        for outcome in endings:
            rig.pass_s(1).finish(rig.go("one"), outcome)

    endings: tuple[Outcome, ...] = ("upstream_error", "ok")
    (one,) = lessened(told_of(play(script)))
    assert one.instead == "2"  # at 1 the other one would have been ejected for nothing
    endings = ("upstream_error", "upstream_error", "ok")
    assert not lessened(told_of(play(script)))


def test_nothing_is_proposed_where_nobody_else_could_have_taken_them() -> None:
    def script(rig: Rig) -> None:
        rig.live("a")
        for _ in range(3):
            rig.pass_s(1).finish(rig.go(), "upstream_error")

    assert not lessened(told_of(play(script)))


def test_failed_scrapes_eject_sooner_too() -> None:
    def script(rig: Rig) -> None:
        bad, good = pinned(rig)
        keeps = next(key for key in ("two", "three") if rig.session_pin(key) == good)
        rig.pass_s(3).fail_scrape(bad)
        beside = rig.go(keeps)
        rig.finish(rig.go("one"), "upstream_cut")
        rig.finish(beside)
        rig.pass_s(3).fail_scrape(bad)

    (one,) = lessened(told_of(play(script)))
    assert (one.setting, one.now, one.instead) == ("eject.scrape_failures", "2", "1")
    assert one.text.startswith("0 instead of 1 request would have failed on a")


def test_it_is_left_out_where_it_takes_too_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prevention, "ROWS_MAX", 3000)
    assert not lessened(told_of(play(dying)))


def silent(rig: Rig, first_byte_ms: int = 700) -> None:
    """Good answers, and two requests that a silent replica kept waiting for ten minutes."""
    rig.live("a", "b")
    rig.finish(rig.go(), ttfb_ms=first_byte_ms, duration_ms=first_byte_ms + 10)
    flown = rig.go(), rig.go()
    rig.pass_s(600)
    for one in flown:
        rig.finish(one, "first_byte_timeout", duration_ms=600_000)


def test_a_shorter_wait_for_a_silent_replica_is_counted() -> None:
    (one,) = lessened(told_of(play(silent)))
    assert (one.setting, one.now, one.instead) == ("timeouts.first_byte", "600s", "2s")
    assert one.text.startswith(
        "2 clients would have had to wait 2 s instead of 10 min for the 504 of a silent replica"
    )
    assert "no good answer would have been cut off by it" in one.text
    assert "not counting" not in one.text


def test_what_still_runs_is_not_judged_by_a_shorter_limit() -> None:
    def script(rig: Rig) -> None:
        silent(rig)
        rig.go()

    (one,) = lessened(told_of(play(script)))
    assert one.text.endswith(", not counting 1 request that had not ended by its end")


def test_the_latest_first_byte_is_not_told_as_sooner_than_it_was() -> None:
    (one,) = lessened(told_of(play(lambda rig: silent(rig, 2546))))
    assert one.text.endswith("the latest first byte of the span came before 2.6 s")


def test_no_limit_is_proposed_that_is_near_to_what_answers_take() -> None:
    assert not lessened(told_of(play(lambda rig: silent(rig, 200_000))))
    assert not lessened(told_of(play(lambda rig: silent(rig), timeouts__first_byte="3s")))
