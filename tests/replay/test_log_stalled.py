"""A log that took nothing for a while: whom it refused is counted once, and told what he got."""

from pathlib import Path

import pytest

from tests.replay.rig import source_of as source_of_rig
from tests.replay.rig import written_log
from tests.replay.test_command import data, run
from tests.rig import BEGIN_MS, MODEL, Flown, Rig, settings
from trioroute.events.words import Outcome
from trioroute.policy import commands as c
from trioroute.replay.incident import Incident, tell_incident
from trioroute.replay.replica import tell_replica


def of_rig(rig: Rig, from_s: float = 0, to_s: float = 1000) -> Incident:
    begin_ms = BEGIN_MS + round(from_s * 1000) if from_s else 1
    return tell_incident(source_of_rig(rig), begin_ms, BEGIN_MS + round(to_s * 1000))


def send(rig: Rig, key: str = "team") -> Flown:
    rig.requests += 1
    arrive = c.Arrive(
        at_ms=rig.at_ms, request_id=f"q{rig.requests}", model=MODEL, prompt_bytes=4000, key=key
    )
    flown = rig.send(arrive)
    assert isinstance(flown, Flown)
    return flown


def refuse(rig: Rig, flown: Flown) -> None:
    """The client gets its 503, as the proxy logs it: before the attempt's end."""
    name = flown.event.request_id
    told = c.Refuse(at_ms=rig.at_ms, request_id=name, code="log_stalled", model=MODEL, key="team")
    rig.do(told)


def give_up(rig: Rig, flown: Flown) -> None:
    rig.fail(flown, cause="timeout", blame="router", status=200)


def full_disk(rig: Rig) -> list[Flown]:
    """13 requests are served, then the log takes nothing: 28 are refused in 22 s, 2 s after they
    came. Then 5 more are served."""
    for _ in range(13):
        rig.pass_s(1)
        rig.finish(send(rig))
    rig.pass_s(1)
    refused = []
    for number in range(28):
        flown = send(rig)
        refused.append(flown)
        rig.pass_s(2 if number == 0 else 0.74)
        refuse(rig, flown)
        give_up(rig, flown)
    for _ in range(5):
        rig.pass_s(1)
        rig.finish(send(rig))
    return refused


def test_a_request_that_got_one_503_is_counted_once() -> None:
    rig = Rig().live("a")
    full_disk(rig)
    told = of_rig(rig)
    total = told.total
    assert (total.requests, total.failed, total.refused, total.retried) == (46, 0, 28, 0)
    assert told.sentence.startswith("46 requests in ")
    assert ": 0 failed, 28 refused, 0 retried" in told.sentence
    assert told.refusals == {"log_stalled": 28}
    assert told.endings == {"ok": 18}
    assert sum(step.failed for step in told.steps) == 0
    assert sum(step.refused for step in told.steps) == 28
    assert [(one.key, one.requests) for one in told.hit] == [("team", 46)]


def test_a_second_attempt_that_the_log_held_up_is_counted_once_too() -> None:
    rig = Rig().live("a", "b")
    flown = send(rig)
    rig.fail(flown, status=502)
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    rig.pass_s(2)
    refuse(rig, again)
    give_up(rig, again)
    total = of_rig(rig).total
    assert (total.requests, total.failed, total.refused, total.retried) == (1, 0, 1, 1)


@pytest.mark.parametrize(("from_s", "counted"), [(1, (2, 0, 2)), (2.5, (1, 0, 1))])
def test_a_span_that_begins_in_it_counts_who_ran_then_with_his_key(
    from_s: float, counted: tuple[int, int, int]
) -> None:
    rig = Rig().live("a")
    one, two = send(rig), send(rig)
    rig.pass_s(2)
    refuse(rig, one)
    rig.pass_s(1)
    give_up(rig, one)
    refuse(rig, two)
    give_up(rig, two)
    (hit,) = of_rig(rig, from_s).hit
    assert hit.key == "team"
    assert (hit.requests, hit.failed, hit.refused) == counted


def test_who_runs_when_a_span_begins_is_counted_where_he_fails() -> None:
    rig = Rig().live("a", "b")
    cut, again, orphan = send(rig), send(rig), send(rig)
    rig.fail(again, status=502)
    rig.pass_s(2)
    rig.finish(cut, "upstream_cut")
    retried = rig.retry(again)
    assert isinstance(retried, Flown)
    rig.finish(retried)
    rig.restart()
    total = of_rig(rig, 1).total
    assert (total.requests, total.failed, total.retried) == (3, 2, 1)
    assert orphan.number


def request(rig: Rig, tmp_path: Path, name: str) -> tuple[str, dict[str, object]]:
    log = written_log(tmp_path / "log", rig)
    (*_, told) = data(log, "--request", name)
    return run(log, "--request", name).stdout, told["followed"]


def test_a_request_tells_the_503_that_its_client_got(tmp_path: Path) -> None:
    rig = Rig().live("a")
    flown = send(rig)
    rig.pass_s(2)
    refuse(rig, flown)
    give_up(rig, flown)
    text, followed = request(rig, tmp_path, "q1")
    assert "client    got 503 log_stalled\n" in text
    assert (followed["refused"], followed["client"]) == ("log_stalled", "503 log_stalled")


ENDS: list[tuple[Outcome, dict[str, object], str]] = [
    ("upstream_cut", {}, "an answer that broke off"),
    ("upstream_cut", {"cause": "abort"}, "an answer that the engine aborted"),
    ("upstream_error", {}, "500 as the replica answered it"),
    ("upstream_error", {"cause": "refused", "status": None}, "502 upstream_failed"),
    ("upstream_error", {"blame": "router", "status": 401}, "502 upstream_auth"),
    ("upstream_error", {"blame": "router", "cause": "reset", "status": None}, "503 overloaded"),
    ("upstream_error", {"cause": "error_event", "status": 503}, "200 with an error in it (503)"),
    ("first_byte_timeout", {}, "504 first_byte_timeout"),
    ("client_gone", {}, "nothing more: it left before the end"),
]


@pytest.mark.parametrize(("outcome", "changes", "client"), ENDS)
def test_a_request_tells_what_its_client_got(
    tmp_path: Path, outcome: Outcome, changes: dict[str, object], client: str
) -> None:
    rig = Rig().live("a")
    rig.finish(send(rig), outcome, **changes)
    text, followed = request(rig, tmp_path, "q1")
    assert f"client    got {client}\n" in text
    assert followed["client"] == client


def test_who_still_waits_has_got_nothing_yet(tmp_path: Path) -> None:
    rig = Rig().live("a")
    rig.fail(send(rig), status=502)
    text, followed = request(rig, tmp_path, "q1")
    assert "client" not in text.partition("followed")[2]
    assert followed["client"] is None


def test_a_refusal_that_the_log_did_not_take_is_told_all_the_same(tmp_path: Path) -> None:
    rig = Rig().live("a")
    give_up(rig, send(rig))
    _, followed = request(rig, tmp_path, "q1")
    assert followed["client"] == "503 log_stalled, whose row the log did not take"


def test_a_log_that_took_nothing_is_a_phase_and_in_the_timeline() -> None:
    rig = Rig().live("a")
    full_disk(rig)
    told = of_rig(rig)
    assert [one.name for one in told.phases] == ["normal", "log stalled", "normal"]
    stalled = told.phases[1]
    first, last = BEGIN_MS + 16_000, BEGIN_MS + 16_000 + 27 * 740
    assert (stalled.from_ms, stalled.to_ms) == (first - 2000, last)
    assert stalled.why == "requests were refused with log_stalled: the log took nothing"
    assert [(one.text, one.times) for one in told.timeline[-1:]] == [(stalled.why, 28)]
    assert told.first_cause is not None
    assert (told.first_cause.kind, told.first_cause.text) == ("log", stalled.why)


def test_refusals_far_apart_are_of_two_stalls_and_a_restart_stays() -> None:
    rig = Rig().live("a")
    for seconds in (5, 20):
        rig.calm(seconds)
        refuse(rig, send(rig))
    rig.pass_s(1).restart()
    rig.pass_s(1)
    refuse(rig, send(rig))
    rig.pass_s(1).same()
    told = of_rig(rig)
    assert [(one.name, one.to_ms - one.from_ms) for one in told.phases] == [
        ("normal", 3000),
        ("log stalled", 2000),
        ("normal", 18_000),
        ("log stalled", 2000),
        ("restart", 1000),
        ("log stalled", 1000),
        ("normal", 1000),
    ]
    assert sum(one.to_ms - one.from_ms for one in told.phases) == told.to_ms - told.from_ms


@pytest.mark.parametrize("now", ["refuse", "serve"])
def test_what_log_on_failure_would_have_done_is_told_from_the_settings_in_force(now: str) -> None:
    rig = Rig(settings(log={"on_failure": now})).live("a")
    full_disk(rig)
    (one,) = [item for item in of_rig(rig).prevention if item.harm == "refused"]
    refused = f"{one.row} was refused as the log took nothing"
    if now == "serve":
        assert one.text.startswith(f"{refused}, although log.on_failure=serve was in force")
    else:
        assert (one.setting, one.now, one.instead) == ("log.on_failure", "refuse", "serve")
        assert (
            f"{refused}: with log.on_failure=serve it would have been served unlogged" in one.text
        )


def test_what_went_out_unlogged_is_told() -> None:
    rig = Rig(settings(log={"on_failure": "serve"})).live("a")
    rig.finish(send(rig))
    rig.pass_s(30)
    begun_ms = rig.at_ms - 22_000
    gap = c.Restate(at_ms=rig.at_ms, lost=0, from_ms=begun_ms, to_ms=rig.at_ms, unlogged=19)
    rig.do(gap)
    rig.pass_s(3)
    rig.finish(send(rig))
    told = of_rig(rig)
    text = (
        "the log could not be written for 22 s: 0 events lost, 19 responses went out unlogged "
        "(log.on_failure=serve)"
    )
    phases = [(one.name, one.why, one.to_ms - one.from_ms) for one in told.phases]
    assert phases == [("normal", "", 8000), ("log stalled", text, 22_000), ("normal", "", 3000)]
    assert told.notes == ()
    assert "does not tell" not in " ".join(item.text for item in told.prevention)
    assert told.prevention[0].text == "no setting of the router makes a log writable that is not"


def test_a_replica_is_not_told_to_have_been_late_where_the_log_was() -> None:
    rig = Rig().live("a")
    full_disk(rig)
    told = tell_replica(source_of_rig(rig), "a")
    assert told.endings == {"ok": 18, "failed (the log took nothing in time)": 28}
