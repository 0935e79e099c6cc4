"""Refusals: counted by code and key with a bound, told in the process log once a second."""

import re

import pytest
import trio
import trio.testing

from trioroute.observe.refusals import KEYS_SHOWN, OTHER, Refusals, tell_refusals


def test_refusals_are_told_once_a_second_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = 5.0
    refusals = Refusals(clock_s=lambda: now_s)
    for _ in range(140):
        refusals.note("rate_limited", "team-a")
    refusals.note("invalid_api_key")
    assert [one.getMessage() for one in caplog.records] == ["refused: 1 rate_limited"]
    now_s += 1
    refusals.note("rate_limited", "team-b")
    told = r"refused: 140 rate_limited, 1 invalid_api_key \(since \d\d:\d\d:\d\d\)"
    assert re.fullmatch(told, caplog.records[-1].getMessage())
    assert refusals.counts["rate_limited", "team-a"] == 140
    assert refusals.counts["rate_limited", "team-b"] == 1
    assert refusals.counts["invalid_api_key", ""] == 1


def test_what_failed_at_a_replica_is_not_told_as_refused(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 5.0
    refusals = Refusals(clock_s=lambda: now_s)
    refusals.note("first_byte_timeout")
    assert [one.getMessage() for one in caplog.records] == ["failed: 1 first_byte_timeout"]
    for code in ("upstream_failed", "overloaded", "upstream_failed"):
        refusals.note(code)
    now_s += 1
    refusals.tell(pause_s=1)
    told = r"refused: 1 overloaded; failed: 2 upstream_failed \(since \d\d:\d\d:\d\d\)"
    assert re.fullmatch(told, caplog.records[-1].getMessage())


async def test_the_last_refusals_are_told_without_another_one(
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    nursery: trio.Nursery,
) -> None:
    refusals = Refusals(clock_s=trio.current_time)
    nursery.start_soon(tell_refusals, refusals)
    for _ in range(11):
        refusals.note("log_stalled")
    await trio.sleep(2.5)
    assert len(caplog.records) == 2
    assert "refused: 10 log_stalled (since " in caplog.records[-1].getMessage()
    await trio.sleep(60)
    assert len(caplog.records) == 2


async def test_the_end_of_the_router_leaves_none_untold(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = Refusals(clock_s=trio.current_time)
    with trio.move_on_after(0.5):
        refusals.note("shutting_down")
        refusals.note("shutting_down")
        await tell_refusals(refusals)
    assert len(caplog.records) == 2


def test_keys_have_series_up_to_a_bound_and_only_where_the_code_is_about_them() -> None:
    refusals = Refusals()
    for number in range(KEYS_SHOWN + 7):
        refusals.note("rate_limited", f"team-{number}")
        refusals.note("log_stalled", f"team-{number}")
    assert refusals.counts["rate_limited", OTHER] == 7
    assert refusals.counts["log_stalled", ""] == KEYS_SHOWN + 7
    assert len({key for _, key in refusals.counts}) == KEYS_SHOWN + 2
