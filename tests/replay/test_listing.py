"""``--requests`` finds what came at some time, by what is known of it."""

import json
from pathlib import Path
from typing import Any

import pytest

import trioroute.replay.listing as listing
from tests.replay.rig import busy_day, source_of
from tests.replay.rig import written_log as written
from tests.replay.test_command import data, run
from tests.rig import Rig
from trioroute.policy import commands as c
from trioroute.policy.keys import digest_key
from trioroute.replay.clock import utc_iso
from trioroute.replay.listing import list_requests, parse_time, parse_where
from trioroute.replay.read import BadQuestion, NotFound
from trioroute.replay.told import Listed

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
    monkeypatch.setattr(listing, "ROWS_MAX", 10_000)


def test_without_a_choice_all_that_came_are_told_in_order() -> None:
    sent = {f"r1/{number}": at_ms for number, at_ms, _ in bodies("Dispatched")}
    told = listed()
    assert {row.decision: row.at_ms for row in told.requests if row.decision} == sent
    assert len(told.requests) == len(sent) + len(bodies("Refused"))
    assert [row.at_ms for row in told.requests] == sorted(row.at_ms for row in told.requests)


@pytest.mark.parametrize("field", ["replica", "reason", "key", "model"])
def test_each_choice_leaves_what_the_rows_say(field: str) -> None:
    rows = bodies("Dispatched")
    values = {str(body[field]) for _, _, body in rows if body.get(field) is not None}
    for value in values:
        wanted = [f"r1/{number}" for number, _, body in rows if body.get(field) == value]
        assert [row.decision for row in listed(**{field: value}).requests] == wanted


def test_failed_are_the_attempts_whose_end_was_not_good() -> None:
    failed = {body["dispatch"] for _, _, body in bodies("Failed")}
    failed |= {
        body["dispatch"]
        for _, _, body in bodies("Released")
        if body["outcome"] not in ("ok", "client_error", "client_gone", "client_stall")
    }
    failed |= {number for _, _, body in bodies("Orphaned") for number in body["dispatches"]}
    told = listed(outcome="failed")
    assert {row.decision for row in told.requests} == {f"r1/{number}" for number in failed}
    one = next(row.replica for row in told.requests)
    assert one is not None
    fewer = listed(outcome="failed", replica=one)
    assert fewer.requests == tuple(row for row in told.requests if row.replica == one)


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
    monkeypatch.setattr(listing, "ROWS_MAX", 7)
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
        ({"replica": "nowhere"}, "there are replica"),
        ({"model": "x"}, "there are model"),
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
    ],
)
def test_a_choice_that_cannot_be_meant_is_refused(word: str, text: str) -> None:
    with pytest.raises(BadQuestion, match=text):
        parse_where([word])
    with pytest.raises(BadQuestion, match="twice"):
        parse_where(["model=a", "model=b"])


def test_around_is_a_minute_before_and_after() -> None:
    at_ms = 1_700_000_000_000
    around = parse_time(f"around {utc_iso(at_ms)}", at_ms)
    assert around == (at_ms - 60_000, at_ms + 60_000)
    assert parse_time("-1h", at_ms) == (at_ms - 3_600_000, at_ms)


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
