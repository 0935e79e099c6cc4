"""Who was delayed: the same in ``--incident``, on every page, and in ``--requests``."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.replay.logs import played, source_of
from tests.replay.prevented import told_of
from tests.replay.rig import source_of as source_of_rig
from tests.replay.rig import written_log
from tests.replay.test_command import data, run
from tests.rig import Flown, Rig
from trioroute.replay.clock import span, utc_iso
from trioroute.replay.incident import Incident, delays, tell_incident
from trioroute.replay.incident.glossary import WORDS
from trioroute.replay.incident.page import page_of
from trioroute.replay.incident.present import markdown_of
from trioroute.replay.listing import list_requests
from trioroute.replay.read import NotFound
from trioroute.replay.requested import Listed, Usual

FAULTS = "replica=1,down=60..120"


def answer(rig: Rig, flown: Flown, ttfb_ms: int) -> None:
    rig.pass_s((ttfb_ms + 500) / 1000).finish(flown, ttfb_ms=ttfb_ms, duration_ms=ttfb_ms + 500)


def usual_day(answers: int = 100, ttfb_ms: int = 50, tokens: int = 500) -> Rig:
    rig = Rig().live("a", "b")
    for _ in range(answers):
        answer(rig.pass_s(1), rig.go(tokens=tokens), ttfb_ms)
    return rig


def listed(rig: Rig, **where: str) -> Listed:
    source = source_of_rig(rig)
    return list_requests(source, (0, rig.at_ms), {"outcome": "delayed", **where})


def names(told: Incident) -> dict[str, int]:
    return {one.request_id: one.delay.first_byte_ms for one in told.latest}


def test_a_slow_stretch_of_a_normal_phase_is_delay_with_names() -> None:
    rig = usual_day()
    slow = [rig.go() for _ in range(4)]
    for flown in slow:
        rig.finish(flown, ttfb_ms=2000, duration_ms=3000)
    answer(rig.pass_s(1), rig.go(), 140)
    told = told_of(rig)
    assert [one.name for one in told.phases] == ["normal"]
    assert told.total.delayed == 4
    assert names(told) == {f"q{number}": 2000 for number in range(101, 105)}
    by_replica = Counter(flown.replica for flown in slow)
    assert {one.replica: one.requests for one in told.delayed} == by_replica
    assert {one.phase for one in told.delayed} == {"normal"}
    assert {one.request_id for one in listed(rig).requests} == set(names(told))


def test_the_time_in_line_is_part_of_a_delay() -> None:
    rig = usual_day()
    answer(rig.pass_s(4), rig.go(waited_ms=4000), 50)
    answer(rig.pass_s(1), rig.go(waited_ms=20), 50)
    (late,) = told_of(rig).latest
    assert (late.request_id, late.decision) == ("q101", f"r1/{rig.state.position - 3}")
    assert (late.delay.first_byte_ms, late.delay.waited_ms, late.delay.tried_ms) == (4050, 4000, 0)
    (row,) = listed(rig).requests
    assert row.delay == late.delay


@pytest.mark.parametrize("begins_after", [False, True])
def test_earlier_attempts_are_part_of_a_delay(begins_after: bool) -> None:
    """So they are where the span begins between the attempts."""
    rig = usual_day()
    flown = rig.pass_s(1).go(waited_ms=300)
    rig.pass_s(5)
    between_ms = rig.at_ms - 2000
    rig.fail(flown, status=502)
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    answer(rig, again, 50)
    told = tell_incident(source_of_rig(rig), between_ms if begins_after else 1, rig.at_ms)
    (late,) = told.latest
    delay = late.delay
    assert (delay.first_byte_ms, delay.waited_ms, delay.tried_ms) == (5350, 0, 5300)
    assert late.replica == again.replica
    assert listed(rig).requests[0].delay == delay


def test_who_left_without_a_byte_was_delayed_and_who_failed_was_not() -> None:
    rig = usual_day()
    for outcome, duration_ms in (
        ("client_gone", 9000),
        ("client_gone", 90),
        ("upstream_cut", 9000),
    ):
        ended = {"ttfb_ms": None, "duration_ms": duration_ms}
        rig.pass_s(10).finish(rig.go(), outcome, **ended)  # type: ignore[arg-type]  # of a table
    told = told_of(rig)
    assert names(told) == {"q101": 9000}
    assert told.latest[0].delay.left
    assert [one.request_id for one in listed(rig).requests] == ["q101"]


def test_what_is_usual_is_known_by_model_kind_of_answer_and_size_of_prompt() -> None:
    rig = Rig().live("a", "b", models=("m", "rare"))
    for _ in range(40):
        answer(rig.pass_s(1), rig.go(tokens=500), 50)
        answer(rig.pass_s(1), rig.go(tokens=3000), 900)
        rig.pass_s(2).finish(rig.go(tokens=500), ttfb_ms=2000, duration_ms=2000)
    for model, tokens, ttfb_ms in (
        ("m", 500, 900),  # 18 times the usual of a small prompt
        ("m", 3000, 950),
        ("m", 40_000, 9000),  # larger than any that is known
        ("rare", 500, 9000),
    ):
        answer(rig.pass_s(1), rig.go(model=model, tokens=tokens), ttfb_ms)
    told = told_of(rig)
    assert names(told) == {"q121": 900}
    assert [(one.whole, one.prompt_to_bytes, one.usual_ttfb_ms) for one in told.usual] == [
        (False, 4096, 50),
        (True, 4096, 2000),
        (False, 16384, 900),
    ]
    assert {one.model: one.delayed for one in told.hit} == {"m": 1, "rare": None}


def test_a_whole_answer_that_came_in_two_segments_is_no_late_stream() -> None:
    rig = usual_day()
    for _ in range(40):
        rig.pass_s(2).finish(rig.go(), ttfb_ms=1000, duration_ms=1005, completion_tokens=77)
    late = rig.pass_s(2).go()
    rig.pass_s(2).finish(late, ttfb_ms=1300, duration_ms=1350, completion_tokens=77)
    told = told_of(rig)
    assert (told.total.delayed, names(told)) == (0, {})
    with pytest.raises(NotFound, match="no request with outcome=delayed"):
        listed(rig)


def test_what_one_in_twenty_takes_anyway_is_no_delay() -> None:
    rig = Rig().live("a")
    for number in range(400):
        answer(rig.pass_s(1), rig.go(), 1500 if number % 10 == 9 else 50)
    answer(rig.pass_s(1), rig.go(), 4000)
    told = told_of(rig)
    assert (told.total.delayed, list(names(told))) == (1, ["q401"])
    assert told.usual[0].slow_ttfb_ms == 1500


def test_a_replica_that_is_always_slow_is_no_measure_for_the_others() -> None:
    rig = Rig().live("a", "b", "c")
    for _ in range(100):
        flown = rig.pass_s(1).go()
        answer(rig, flown, 800 if flown.replica == "c" else 50)
    told = told_of(rig)
    assert {one.replica for one in told.delayed} == {"c"}


def test_they_are_counted_in_the_phase_in_which_they_were_overdue() -> None:
    rig = usual_day()
    stuck = rig.pass_s(10).go()
    came_ms = rig.at_ms
    rig.pass_s(0.1).eject("b" if stuck.replica == "a" else "a")
    rig.pass_s(4).finish(stuck, ttfb_ms=3900, duration_ms=4100)
    told = told_of(rig)
    (row,) = told.delayed
    assert (row.phase, row.requests, row.worst) == ("reduced capacity", 1, ("q101",))
    assert row.from_ms <= came_ms + 150 < row.to_ms
    assert told.latest[0].at_ms == came_ms


def test_every_page_says_the_same_and_what_delayed_means() -> None:
    rig = usual_day()
    answer(rig.pass_s(1), rig.go(), 7000)
    told = told_of(rig)
    for text in (page_of(told), markdown_of(told)):
        assert "1 delayed" in text
        assert WORDS["delayed"] in text
        assert "q101" in text
        assert span(7000) in text


def test_requests_asks_for_them_as_for_any_other_outcome(tmp_path: Path) -> None:
    rig = usual_day()
    answer(rig.pass_s(4), rig.go(waited_ms=4000), 60)
    log = written_log(tmp_path / "log", rig)
    asked = ("--requests", "-10m", "--where", "outcome=delayed")
    shown = run(log, *asked)
    assert shown.exit_code == 0
    text = " ".join(shown.stdout.split())
    assert text.startswith("1 request, ")
    assert "after 4 s, 4 s in line; 50 ms is usual" in text
    assert WORDS["delayed"][:40] in text
    (row,) = data(log, *asked)["requests"]
    assert (row["request_id"], row["outcome"]) == ("q101", "ok")
    assert row["delay"]["first_byte_ms"] == 4060
    incident = data(log, "--incident", "-10m")
    assert [one["request_id"] for one in incident["latest"]] == ["q101"]
    assert json.dumps(row["delay"]) == json.dumps(incident["latest"][0]["delay"])
    none = run(log, *asked, "--where", "replica=c")
    assert none.exit_code == 1
    assert "outcome=delayed" in none.output


def test_an_incident_may_be_asked_for_around_a_time(tmp_path: Path) -> None:
    rig = usual_day()
    answer(rig.pass_s(4), rig.go(waited_ms=4000), 60)
    at_ms = rig.at_ms
    rig.pass_s(2000).use()
    log = written_log(tmp_path / "log", rig)
    told = data(log, "--incident", f"around {utc_iso(at_ms)}")
    assert told["to_ms"] - at_ms == 900_000
    assert [one["request_id"] for one in told["latest"]] == ["q101"]
    unquoted = run(log, "--incident", "around", "14:05")
    assert unquoted.exit_code == 2
    assert '--incident "around 14:05"' in unquoted.output


def test_where_too_few_answers_say_what_is_usual_nobody_is_called_delayed() -> None:
    rig = usual_day(10)
    answer(rig.pass_s(1), rig.go(), 9000)
    assert told_of(rig).total.delayed is None
    with pytest.raises(NotFound, match="fewer than 20 answers"):
        listed(rig)


def border(usual: tuple[Usual, ...], whole: bool, prompt_bytes: int) -> int | None:
    for one in usual:
        low, high = one.prompt_from_bytes or 0, one.prompt_to_bytes
        if one.whole == whole and high is not None and low <= prompt_bytes < high:
            return one.delayed_from_ms
    return None


def test_delays_are_those_that_the_rows_tell() -> None:
    entries, _ = played(1500, faults=FAULTS)
    source = source_of(entries)
    told = tell_incident(source, 1, source.last().at_ms)
    sent: dict[int, Any] = {}
    came: dict[str, int] = {}
    late, unknown = set[str](), set[str]()
    for number, entry in enumerate(entries, 1):
        body = orjson.loads(entry.body)
        if entry.kind == "Dispatched":
            sent[number] = body
            came.setdefault(body["request_id"], entry.at_ms - body.get("waited_ms", 0))
        if entry.kind == "Released" and body["outcome"] == "ok":
            asked = sent[body["dispatch"]]
            whole = body["duration_ms"] - body["ttfb_ms"] <= 10
            from_ms = border(told.usual, whole, asked["prompt_bytes"])
            name = asked["request_id"]
            byte_ms = entry.at_ms - body["duration_ms"] + body["ttfb_ms"] - came[name]
            if from_ms is None:
                unknown.add(name)
            elif byte_ms >= from_ms:
                late.add(name)
    found = list_requests(source, (1, source.last().at_ms), {"outcome": "delayed"})
    listed = {row.request_id for row in found.requests}
    assert found.left_out == 0
    assert listed - unknown == late
    assert told.total.delayed == len(listed)
    assert sum(one.requests for one in told.delayed) == len(listed)
    assert len(late) > 3
    assert {one.request_id for one in told.latest} <= listed


def test_a_first_attempt_that_was_just_read_is_not_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row's look-up takes as long as counting a hundred; after an outage there are thousands."""
    rig = usual_day()
    flown = rig.pass_s(1).go()
    rig.pass_s(5).fail(flown, status=502)
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    answer(rig, again, 50)
    monkeypatch.setattr(delays, "sent_kept", None)
    assert names(tell_incident(source_of_rig(rig), 1, rig.at_ms)) == {"q101": 5050}
