"""A request that was refused has a story: what refused it, who was full or out, and what helps."""

from pathlib import Path

import attrs

from tests.replay.rig import source_of, written_log
from tests.replay.test_command import data, run
from tests.rig import Rig, settings
from trioroute.events.words import RefusalCode
from trioroute.policy.commands import Refuse
from trioroute.replay.find import OnlyRefused, numbers_of_request
from trioroute.replay.refused import RefusedTold, tell_refused


def refuse(rig: Rig, code: RefusalCode, model: str | None = "m", waited_ms: int = 0) -> None:
    told = Refuse(at_ms=rig.at_ms, request_id="late", code=code, model=model, key="team")
    rig.do(attrs.evolve(told, waited_ms=waited_ms))


def story(rig: Rig) -> RefusedTold:
    source = source_of(rig)
    try:
        numbers_of_request(source, "late")
    except OnlyRefused as only:
        return tell_refused(source, only.rows[-1])
    raise AssertionError("it was refused")


def full(waited_ms: int = 0) -> Rig:
    rig = Rig(settings(admission={"max_in_flight": 2, "max_waiting": 4})).live("a", "b")
    for _ in range(3):
        rig.go()
    rig.drain("b")
    while rig.state.load.of("a").own < 2:
        rig.go()
    refuse(rig, "overloaded", waited_ms=waited_ms)
    return rig


def test_of_a_full_fleet_it_names_the_limit_and_who_was_full_or_out() -> None:
    rig = full()
    told = story(rig)
    assert (told.client, told.model, told.key) == ("503 overloaded", "m", "team")
    assert told.place == f"r1/{rig.state.position}"
    assert "a full (in flight 2 of admission.max_in_flight=2)" in told.cause
    assert "b DRAINING" in told.cause
    assert told.cause.endswith("the line (admission.max_waiting=4) was full")
    assert {one.name: one.in_flight for one in told.replicas}["a"] == 2
    assert any("admission.max_in_flight" in remedy for remedy in told.remedies)


def test_of_one_that_waited_it_says_how_long() -> None:
    told = story(full(waited_ms=5000))
    assert told.waited_ms == 5000
    assert told.cause.endswith("it had waited in line for 5 s, of admission.max_wait=5000ms")


def test_of_a_pool_that_is_out_it_says_who_was_what() -> None:
    rig = Rig().live("a")
    rig.eject("a")
    refuse(rig, "no_healthy_instances")
    assert story(rig).cause == "no replica for m was LIVE or PROBING: a EJECTED"


def test_of_a_model_that_nobody_serves_it_names_those_that_are() -> None:
    rig = Rig().live("a")
    refuse(rig, "model_not_found", "gpt")
    told = story(rig)
    assert told.cause == "no replica ever served gpt; models served then: m"
    assert told.replicas == ()


def test_a_limit_of_a_key_is_said_not_to_be_in_the_log() -> None:
    rig = Rig().live("a")
    refuse(rig, "rate_limited")
    assert "keys are not in the log" in story(rig).cause


def test_the_command_ends_well_and_tells_it(tmp_path: Path) -> None:
    log = written_log(tmp_path, full())
    (told,) = data(log, "--request", "late")
    assert told["code"] == "overloaded"
    assert told["replicas"][0]["name"] == "a"
    shown = run(log, "--request", "late")
    assert shown.exit_code == 0
    assert "request late for m was refused, never dispatched" in shown.output
    assert "remedy" in shown.output
