"""``--requests`` finds what came at some time, by what is known of it."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import trioroute.replay.lives as lives
from tests.replay.rig import busy_day, source_of
from tests.replay.rig import written_log as written
from tests.replay.test_command import data, run
from tests.rig import Flown, Rig
from trioroute.policy import commands as c
from trioroute.policy.keys import digest_key
from trioroute.replay.clock import REQUESTS_AROUND_MS, parse_time, utc_iso
from trioroute.replay.histories import present_listed
from trioroute.replay.listing import list_requests, parse_where
from trioroute.replay.read import BadQuestion, NotFound
from trioroute.replay.requested import Listed

DAY = busy_day(300)
SOURCE = source_of(DAY)
BEGIN_MS = DAY.log.entries[0].at_ms
WHOLE = (BEGIN_MS, DAY.at_ms)
ENDS = ("Released", "Failed")


def listed(span: tuple[int, int] = WHOLE, /, **where: str) -> Listed:
    return list_requests(SOURCE, span, where)


def bodies(kind: str) -> list[tuple[int, int, dict[str, Any]]]:
    """Version, time and fields of all rows of a kind."""
    rows = enumerate(DAY.log.entries, 1)
    return [(n, row.at_ms, json.loads(row.body)) for n, row in rows if row.kind == kind]


@pytest.fixture(autouse=True)
def all_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lives, "ROWS_MAX", 10_000)


def lasts() -> dict[str, tuple[str, dict[str, Any]]]:
    """By request, its last decision."""
    return {body["request_id"]: (f"r1/{n}", body) for n, _, body in bodies("Dispatched")}


def failures() -> set[int]:
    """Dispatches that did not end well."""
    failed = {body["dispatch"] for _, _, body in bodies("Failed")}
    failed |= {
        body["dispatch"]
        for _, _, body in bodies("Released")
        if body["outcome"] not in ("ok", "client_error", "client_gone", "client_stall")
    }
    return failed | {number for _, _, body in bodies("Orphaned") for number in body["dispatches"]}


def test_without_a_choice_each_request_is_told_once_by_its_last_attempt() -> None:
    told = listed()
    sent = [row for row in told.requests if row.decision is not None]
    assert {row.request_id: row.decision for row in sent} == {
        request: decision for request, (decision, _) in lasts().items()
    }
    assert len(sent) == len(lasts())
    assert any(row.tried for row in sent)
    assert [row.at_ms for row in told.requests] == sorted(row.at_ms for row in told.requests)


def test_attempts_are_told_one_by_one_where_they_are_asked_for() -> None:
    sent = {f"r1/{number}": at_ms for number, at_ms, _ in bodies("Dispatched")}
    told = listed(attempt="any")
    assert {row.decision: row.at_ms for row in told.requests} == sent
    failed = {f"r1/{number}" for number in failures()}
    assert {row.decision for row in listed(attempt="failed").requests} == failed


@pytest.mark.parametrize("field", ["replica", "reason", "key", "model"])
def test_each_choice_leaves_what_the_rows_say(field: str) -> None:
    rows = bodies("Dispatched")
    values = {str(body[field]) for _, _, body in rows if body.get(field) is not None}
    for value in values:
        wanted = [(n, body["request_id"]) for n, _, body in rows if body.get(field) == value]
        told = list_requests(SOURCE, WHOLE, {field: value, "attempt": "any"})
        assert [row.decision for row in told.requests] == [f"r1/{n}" for n, _ in wanted]
        assert {row.request_id for row in listed(**{field: value}).requests} == {
            request for _, request in wanted
        }


def test_failed_are_the_requests_whose_client_saw_a_failure() -> None:
    failed = failures()
    seen = {
        request
        for request, (decision, _) in lasts().items()
        if int(decision.removeprefix("r1/")) in failed
    }
    told = listed(outcome="failed")
    assert {row.request_id for row in told.requests} == seen
    tried_again = {row.request_id for row in listed(attempt="failed").requests} - seen
    assert tried_again
    both = listed(attempt="failed", outcome="ok")
    assert {row.request_id for row in both.requests} == tried_again
    assert all(row.client is not None for row in told.requests)
    one = next(row.replica for row in told.requests)
    assert one is not None
    fewer = listed(outcome="failed", replica=one)
    assert set(fewer.requests) == {row for row in told.requests if one in (row.replica, *row.tried)}


def test_what_comes_of_a_request_behind_the_span_is_told_with_it() -> None:
    rig = Rig().live("a", "b")
    rig.fail(flown := rig.go(), status=502)
    came_ms = rig.at_ms
    rig.pass_s(2)
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    rig.pass_s(1).finish(again, "first_byte_timeout", status=200)
    rig.finish(rig.go())
    (row,) = list_requests(source_of(rig), (came_ms, came_ms), {"outcome": "failed"}).requests
    assert (row.decision, row.client) == (f"r1/{again.number}", "504 first_byte_timeout")
    assert (row.tried, row.outcome) == ((flown.replica,), "first_byte_timeout")
    with pytest.raises(NotFound):
        list_requests(source_of(rig), (came_ms, came_ms), {"outcome": "ok"})


def test_a_request_refused_after_its_attempt_is_told_once() -> None:
    rig = Rig().live("a")
    rig.fail(flown := rig.go(), cause="refused")
    code, request = "no_healthy_instances", flown.event.request_id
    rig.do(c.Refuse(at_ms=rig.at_ms, request_id=request, code="no_healthy_instances", model="m"))
    source = source_of(rig)
    (row,) = list_requests(source, (0, rig.at_ms), {"outcome": "failed"}).requests
    assert (row.outcome, row.client, row.replica) == ("refused", f"503 {code}", "a")
    assert list_requests(source, (0, rig.at_ms), {"reason": code}).requests == (row,)


def test_a_refusal_that_is_the_clients_own_is_no_failure() -> None:
    rig = Rig().live("a")
    rig.do(c.Refuse(at_ms=rig.at_ms, request_id="q", code="model_not_found", model="x"))
    assert list_requests(source_of(rig), (0, rig.at_ms), {"outcome": "refused"}).requests
    with pytest.raises(NotFound):
        list_requests(source_of(rig), (0, rig.at_ms), {"outcome": "failed"})


def test_only_what_came_in_the_span_is_told_with_its_end_behind_it() -> None:
    number, at_ms, body = bodies("Dispatched")[100]
    told = listed((at_ms, at_ms))
    assert f"r1/{number}" in [row.decision for row in told.requests]
    assert {row.at_ms for row in told.requests} == {at_ms}
    (row,) = (row for row in told.requests if row.decision == f"r1/{number}")
    assert row.request_id == body["request_id"]
    assert row.end is not None
    assert row.end.at_ms >= at_ms


def test_a_refused_request_and_one_that_runs_are_told() -> None:
    rig = Rig().live("a")
    flown = rig.go("s")
    refused = c.Refuse(at_ms=rig.at_ms, request_id="late", code="overloaded", model="m", key="k")
    rig.do(refused)
    told = list_requests(source_of(rig), (0, rig.at_ms), {})
    ends = {row.request_id: (row.outcome, row.replica) for row in told.requests}
    assert ends == {flown.event.request_id: ("running", "a"), "late": ("refused", None)}
    for where, found in (({"key": "k"}, "late"), ({"outcome": "running"}, flown.event.request_id)):
        told = list_requests(source_of(rig), (0, rig.at_ms), where)
        assert [row.request_id for row in told.requests] == [found]


def test_more_than_fit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = listed()
    monkeypatch.setattr(lives, "ROWS_MAX", 7)
    few = listed()
    assert len(few.requests) == 7
    assert few.left_out == len(whole.requests) - 7


def test_a_session_is_found_by_its_raw_key_or_its_digest() -> None:
    secret = b"secret"
    rig = Rig().live("a")
    digest = digest_key(secret, "session", "m", "mine")
    rig.use(digest)
    rig.use("other")
    for name in ("mine", digest):
        told = list_requests(source_of(rig), (0, rig.at_ms), {"session": name}, secret)
        assert [row.session for row in told.requests] == [digest]


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({"replica": "aa"}, "did you mean replica=a?"),
        ({"replica": "nowhere"}, "what came then had replica "),
        ({"model": "x"}, "what came then had model m"),
        ({"key": "bob"}, "what came then had key "),
    ],
)
def test_nothing_found_names_the_nearest(where: dict[str, str], text: str) -> None:
    with pytest.raises(NotFound, match=text.replace("?", r"\?")):
        listed(**where)


def test_a_span_without_requests_says_what_the_log_holds() -> None:
    with pytest.raises(NotFound, match="the log holds"):
        listed((1, 2))


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("modle=x", "did you mean model=x"),
        ("model", "write KEY=VALUE"),
        ("outcome=faild", "did you mean 'failed'"),
        ("attempt=faield", "did you mean 'failed'"),
        ("reason=laod", "did you mean 'load'"),
    ],
)
def test_a_choice_that_cannot_be_meant_is_refused(word: str, text: str) -> None:
    with pytest.raises(BadQuestion, match=text):
        parse_where([word])
    with pytest.raises(BadQuestion, match="twice"):
        parse_where(["model=a", "model=b"])


def test_around_is_a_minute_before_and_after() -> None:
    at_ms = 1_700_000_000_000
    around = parse_time(f"around {utc_iso(at_ms)}", REQUESTS_AROUND_MS, at_ms)
    assert around == (at_ms - 60_000, at_ms + 60_000)
    assert parse_time("-1h", REQUESTS_AROUND_MS, at_ms) == (at_ms - 3_600_000, at_ms)


def test_the_list_leads_to_the_story_of_one(tmp_path: Path) -> None:
    log = written(tmp_path / "log", DAY)
    found = data(log, "--requests", "-1h", "--where", "outcome=failed")
    one = found["requests"][0]
    text = run(log, "--requests", "-1h", "--where", "outcome=failed").stdout
    assert one["request_id"] in text
    assert "\x1b" not in text
    story = data(log, "--request", one["request_id"])
    assert one["decision"] in [told["decision"] for told in story]
    assert run(log, "--last", "5", "--where", "model=m").exit_code == 2


def test_a_status_is_that_which_the_client_got(tmp_path: Path) -> None:
    rig = Rig().live("a")
    slow = rig.go()
    rig.finish(slow, "first_byte_timeout")
    well = rig.pass_s(1).go()
    rig.finish(well, ttfb_ms=74_000, duration_ms=75_000)
    rig.do(c.Refuse(at_ms=rig.at_ms, request_id="late", code="overloaded", model="m"))
    source, span = source_of(rig), (1, rig.at_ms)
    for status, name in (
        ("504", slow.event.request_id),
        ("200", well.event.request_id),
        ("503", "late"),
    ):
        found = list_requests(source, span, {"status": status}).requests
        assert [row.request_id for row in found] == [name]
    shown = run(written(tmp_path, rig), "--requests", "-1h").output
    assert "first byte" in shown
    assert "1 min 14 s" in shown


def test_how_long_a_request_took_that_the_router_left_is_not_told_from_the_next_start() -> None:
    """It broke some time before, and that time is not in the log."""
    rig = Rig().live("a")
    rig.go("s")
    rig.pass_s(10_800).restart()
    told = list_requests(source_of(rig), (1, rig.at_ms), {"outcome": "failed"})
    printed = StringIO()
    present_listed(Console(file=printed, width=200), told)
    assert "a broken connection: the router died, within 3 h" in printed.getvalue()
    assert "died, after" not in printed.getvalue()
