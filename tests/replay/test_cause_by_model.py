"""A replica harms clients of the models that it serves, and no others: first causes by model."""

from tests.replay.test_first_cause import cause_of, of_rig
from tests.rig import BEGIN_MS, Flown, Rig
from trioroute.policy import commands as c


def two_models() -> Rig:
    """Replicas q1 and q2 serve q, l1 serves l alone."""
    rig = Rig().live("q1", "q2", models=("q",))
    return rig.live("l1", models=("l",))


def since(rig: Rig) -> float:
    return (rig.at_ms - BEGIN_MS) / 1000


def answer(rig: Rig, outcome: str, model: str = "l") -> Flown:
    flown = rig.pass_s(0.1).go(model=model)
    assert outcome in ("ok", "upstream_error")
    rig.finish(flown, "ok" if outcome == "ok" else "upstream_error")
    return flown


def test_an_eject_of_another_model_under_way_did_not_do_the_harm() -> None:
    """The first failure is no evidence of the eject: an answer that was good came after it."""
    rig = two_models()
    rig.pass_s(1).eject("q1")
    begin_s = since(rig.pass_s(1))
    for outcome in ("upstream_error", "ok", *("upstream_error",) * 3):
        answer(rig, outcome)
    cause = cause_of(rig, begin_s)
    assert cause.kind == "eject"
    assert cause.text.startswith("l1 EJECTED for at least 30 s: status 500")
    assert len(cause.evidence) == 3
    under_way, failed = cause.before
    assert under_way.text.startswith("already under way when the span begins: q1 is EJECTED")
    assert failed.text.startswith("r1/")
    assert failed.at_ms < cause.evidence[0].at_ms


def test_a_failure_before_the_counted_ones_is_not_of_what_was_under_way() -> None:
    """Of the same model too: it ran on the replica that was ejected for it later."""
    rig = Rig().live("a", "b")
    rig.pass_s(1).eject("b")
    begin_s = since(rig.pass_s(1))
    for outcome in ("upstream_error", "ok", *("upstream_error",) * 3):
        answer(rig, outcome, "m")
    cause = cause_of(rig, begin_s)
    assert (cause.kind, cause.text.partition(" ")[0]) == ("eject", "a")


def test_refusals_of_a_model_are_not_laid_to_a_replica_of_another() -> None:
    rig = two_models()
    rig.pass_s(1).eject("q1")
    begin_s = since(rig.pass_s(1))
    rig.pass_s(1).drain("q2", on=True)
    rig.pass_s(1).drain("l1", on=True)
    refused = c.Refuse(at_ms=rig.at_ms, request_id="x", code="no_healthy_instances", model="l")
    rig.do(refused)
    cause = cause_of(rig, begin_s)
    assert cause.kind == "change"
    assert cause.text.startswith("l1: draining")
    assert "q2: draining" not in " ".join(line.text for line in cause.evidence)


def test_harmless_trouble_of_another_model_is_told_beside_what_did_the_harm() -> None:
    rig = two_models()
    rig.pass_s(1).eject("q1")
    for _ in range(3):
        answer(rig, "upstream_error")
    cause = cause_of(rig)
    assert cause.text.startswith("l1 EJECTED")
    assert cause.unfelt[0].text.startswith("q1 EJECTED")
    rig = two_models()
    rig.pass_s(1).eject("q1")
    alone = answer(rig, "upstream_error")
    cause = cause_of(rig)
    assert cause.kind == "failure"
    assert cause.text.startswith(f"r1/{alone.number} ")


def test_an_attempt_whose_request_was_rescued_is_not_the_one_that_nobody_took() -> None:
    rig = two_models()
    rescued = rig.go(model="q")
    rig.fail(rescued, status=500)
    again = rig.retry(rescued)
    assert isinstance(again, Flown)
    rig.finish(again)
    lost = rig.pass_s(1).go(model="l")
    rig.fail(lost, status=500)
    cause = cause_of(rig)
    assert cause.kind == "failure"
    assert cause.text.startswith(f"r1/{lost.number} ")
    assert of_rig(rig).total.failed == 1


def test_nothing_is_told_as_before_the_cause_that_is_the_cause_or_came_after_it() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(1).drain("a")
    rig.pass_s(2).drain("b")
    rig.pass_s(1)
    rig.do(c.Refuse(at_ms=rig.at_ms, request_id="q", code="no_healthy_instances", model="m"))
    cause = cause_of(rig)
    assert cause.text.startswith("a: draining")
    assert cause.evidence[0].text.startswith("b: draining")
    assert cause.before == ()
