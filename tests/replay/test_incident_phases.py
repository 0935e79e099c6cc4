"""How long phases of ``--incident`` last, and what they say of why."""

import pytest

from tests.replay.prevented import told_of
from tests.replay.rig import source_of
from tests.rig import BEGIN_MS, Flown, Rig
from trioroute.policy.commands import Eject, Refuse
from trioroute.replay.clock import local_iso
from trioroute.replay.incident import tell_incident
from trioroute.replay.incident.block import clock_time
from trioroute.replay.incident.told import Phase


def refuse(rig: Rig, code: str = "overloaded") -> None:
    assert code in ("overloaded", "no_healthy_instances")
    if code == "overloaded":
        rig.do(Refuse(at_ms=rig.at_ms, request_id="q", code="overloaded", model="m"))
    else:
        rig.do(Refuse(at_ms=rig.at_ms, request_id="q", code="no_healthy_instances", model="m"))


def seconds(phases: tuple[Phase, ...]) -> list[tuple[str, float, float]]:
    return [
        (one.name, (one.from_ms - BEGIN_MS) / 1000, (one.to_ms - BEGIN_MS) / 1000) for one in phases
    ]


def test_an_overload_of_refusals_ends_with_the_last_one() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(5)
    refuse(rig)
    rig.pass_s(9)
    refuse(rig)
    rig.pass_s(1).use()
    rig.pass_s(8).drain("b")
    rig.pass_s(20).same()
    assert seconds(told_of(rig).phases) == [
        ("normal", 0, 5),
        ("overload", 5, 14),
        ("normal", 14, 23),
        ("reduced capacity", 23, 43),
    ]


def test_refusals_far_from_each_other_are_two_overloads_and_the_end_of_the_span_ends_one() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(5)
    refuse(rig)
    rig.pass_s(11)
    refuse(rig)
    rig.pass_s(2).use()
    assert seconds(told_of(rig).phases) == [
        ("normal", 0, 5),
        ("overload", 5, 5.001),
        ("normal", 5.001, 16),
        ("overload", 16, 16.001),
        ("normal", 16.001, 18),
    ]


def test_no_overload_follows_an_outage_whose_refusals_ended_with_it() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(1).drain("a")
    rig.pass_s(1).drain("b")
    rig.pass_s(1)
    refuse(rig, "no_healthy_instances")
    rig.pass_s(1).drain("a", on=False)
    rig.pass_s(1).use()
    rig.pass_s(20).same("a")
    assert seconds(told_of(rig).phases) == [
        ("normal", 0, 1),
        ("reduced capacity", 1, 2),
        ("outage", 2, 4),
        ("reduced capacity", 4, 25),
    ]


def test_an_outage_soon_after_refusals_does_not_begin_sooner() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(5)
    refuse(rig)
    rig.pass_s(2).drain("a")
    rig.pass_s(2).drain("b")
    rig.pass_s(1)
    refuse(rig, "no_healthy_instances")
    rig.pass_s(20).restart()
    assert seconds(told_of(rig).phases)[:4] == [
        ("normal", 0, 5),
        ("overload", 5, 5.001),
        ("normal", 5.001, 7),
        ("reduced capacity", 7, 9),
    ]


def test_a_phase_tells_whenever_its_reason_changes() -> None:
    rig = Rig().live("a", "b", "c", "d")
    rig.pass_s(1).drain("a")
    rig.pass_s(1)
    rig.scrape(b=rig.reading("b", asleep=True))
    rig.pass_s(1).drain("c")
    rig.pass_s(1).scrape(b=(0, 0))
    phase = told_of(rig).phases[-1]
    assert phase.name == "reduced capacity"
    first, *later = phase.why.split("; ")
    assert first == "a draining"
    assert [one.partition(" ")[2].partition(" ")[2] for one in later] == [
        "a draining, b asleep",
        "a, c draining, b asleep",
    ]
    rig.pass_s(2).same("a", "b", "c", "d")
    assert told_of(rig).phases[-1].why.endswith("a, c draining")
    for _ in range(20):
        rig.pass_s(1).drain("d")
        rig.pass_s(1).drain("d", on=False)
    parts = told_of(rig).phases[-1].why.split("; ")
    assert len(parts) == 6 + 1
    assert parts[0] == "a draining"
    assert any(part.endswith("more changes") for part in parts)


@pytest.mark.parametrize("before", ["EJECTED", "DRAINING", "PROBING", "overload"])
def test_an_eject_begins_with_what_was_held_against_its_replica_whatever_was_before(
    before: str,
) -> None:
    rig = Rig().live("a", "b", "c")
    if before == "EJECTED":
        rig.pass_s(1).eject("a")
    elif before == "DRAINING":
        rig.pass_s(1).drain("a")
    elif before == "PROBING":
        rig.probing("a")
    else:
        rig.pass_s(1)
        refuse(rig)
    held_ms = rig.pass_s(2).at_ms
    for _ in range(3):
        rig.fail_scrape("b")
        rig.pass_s(1)
    assert rig.standing("b") == "EJECTED"
    rig.same("c")
    phases = told_of(rig).phases
    assert [(one.name, one.from_ms) for one in phases if one.to_ms > held_ms][:1] == [
        ("eject", held_ms)
    ]
    assert "b in trouble, then ejected" in phases[-2].why


def test_what_led_to_one_eject_is_not_held_against_its_replica_at_the_next() -> None:
    rig = Rig().live("a")
    running = [rig.go() for _ in range(3)]
    rig.live("b", "c").pass_s(1)
    for flown in running:
        rig.fail(flown, status=500)
    assert rig.standing("a") == "EJECTED"
    rig.calm(100)
    assert rig.standing("a") == "LIVE"
    rig.pass_s(2).eject("a")
    rig.pass_s(1).same("b")
    assert [one.name for one in told_of(rig).phases] == [
        "normal",
        "reduced capacity",
        "recovery",
        "normal",
        "reduced capacity",
    ]


def by_hand(rig: Rig, name: str) -> None:
    rig.do(Eject(at_ms=rig.at_ms, replica=name, why="hot"))


def test_what_is_ejected_by_hand_neither_flaps_nor_was_in_trouble() -> None:
    rig = Rig().live("a", "b")
    rig.go()
    rig.pass_s(1).eject("b")
    rig.calm(80)
    by_hand(rig, "b")
    rig.pass_s(1).same("a")
    assert rig.state.health["b"].n == 2
    phase = told_of(rig).phases[-1]
    assert (phase.name, phase.why) == ("reduced capacity", "b EJECTED by hand")
    rig = Rig().live("a")
    rig.go()
    by_hand(rig.pass_s(1), "a")
    rig.pass_s(1).same()
    phases = told_of(rig).phases
    assert [one.name for one in phases] == ["normal", "outage"]
    assert phases[-1].why == "nobody serves m: a EJECTED by hand"


@pytest.mark.parametrize("before", [False, True])
def test_an_outage_tells_who_was_served_in_it_all_the_same(before: bool) -> None:
    """``before``: the span begins in it."""
    rig = Rig().live("a")
    rig.pass_s(1).eject("a")
    begin_ms = rig.at_ms + 500 if before else 1
    rig.pass_s(1)
    sent = [rig.go() for _ in range(5)]
    assert {one.reason for one in sent} == {"fallback"}
    rig.pass_s(1)
    for one in sent[:3]:
        rig.finish(one)
    rig.finish(sent[3], "upstream_error")
    source = source_of(rig)
    phase = tell_incident(source, begin_ms, source.last().at_ms).phases[-1]
    assert phase.name == "outage"
    assert phase.why == (
        "nobody serves m: a EJECTED; 5 requests sent there all the same (RULES 4 step 5), 3 of "
        "them answered"
    )


def test_a_request_that_was_tried_twice_in_an_outage_is_counted_once() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(1).eject("a")
    rig.eject("b")
    rig.pass_s(1)
    for answered in (True, False, True):
        first = rig.go()
        rig.fail(first)
        again = rig.retry(first)
        assert isinstance(again, Flown)
        rig.finish(again, "ok" if answered else "upstream_error")
    phase = told_of(rig).phases[-1]
    assert "3 requests sent there all the same (RULES 4 step 5), 2 of them answered" in phase.why


def test_an_overload_names_the_models_that_were_refused_and_shows_only_who_serves_them() -> None:
    rig = Rig().live("a", "b")
    rig.live("x", models=("other",))
    rig.pass_s(1)
    refuse(rig)
    rig.pass_s(1)
    rig.do(Refuse(at_ms=rig.at_ms, request_id="q", code="overloaded", model="other"))
    rig.pass_s(20).use()
    told = told_of(rig)
    (phase,) = [one for one in told.phases if one.name == "overload"]
    assert phase.why.startswith("requests for m were refused: there was no room for them")
    cause = told.first_cause
    assert cause is not None
    assert cause.text.startswith("overload: requests for m were refused")
    assert [line.text.split()[0] for line in cause.evidence] == ["a", "b"]


def test_where_most_requests_fail_it_is_not_normal() -> None:
    """Both replicas are frozen and nobody is ejected: each request runs into its limit."""
    rig = Rig().live("a", "b")
    for _ in range(5):
        rig.pass_s(1).use()
    for number in range(4):
        flown: Flown = rig.pass_s(5).go()
        rig.finish(flown, "first_byte_timeout", blame="none")
        if number == 1:
            rig.use()
    rig.pass_s(30).use()
    told = told_of(rig)
    assert seconds(told.phases) == [
        ("normal", 0, 10),
        ("failing", 10, 25.001),
        ("normal", 25.001, 55),
    ]
    assert told.phases[1].why == "4 of 5 requests that ended failed: first_byte_timeout 4"


def test_few_failures_a_burst_or_more_answers_make_no_phase() -> None:
    for failures, answers, gap_s in ((2, 0, 1), (3, 4, 1), (5, 0, 0.1)):
        rig = Rig().live("a", "b")
        rig.pass_s(1)
        for number in range(failures):
            rig.finish(rig.pass_s(gap_s).go(), "first_byte_timeout", blame="none")
            for _ in range(answers if number == 0 else 0):
                rig.use()
        rig.pass_s(1).same()
        assert [one.name for one in told_of(rig).phases] == ["normal"]


def test_a_time_in_which_all_went_well_is_not_failing_for_what_failed_before_and_after_it() -> None:
    """A burst of failures, eight good seconds, then an outage with more of them."""
    rig = Rig().live("a", "b")
    rig.pass_s(5)
    for flown in [rig.go() for _ in range(4)]:
        rig.finish(flown, "first_byte_timeout", blame="none")
    for _ in range(8):
        rig.pass_s(1).use()
    by_hand(rig, "a")
    by_hand(rig, "b")
    for _ in range(20):
        rig.finish(rig.pass_s(0.2).go(), "upstream_error", blame="none")
    told = told_of(rig)
    assert told.total.failed == 24
    assert seconds(told.phases) == [("normal", 0, 13), ("outage", 13, 17)]


def test_a_failing_time_over_several_phases_is_one_and_counts_its_own() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(5)
    for number in range(6):
        rig.finish(rig.pass_s(1).go(), "first_byte_timeout", blame="none")
        if number == 2:
            rig.drain("b")
    rig.pass_s(20).use()
    told = told_of(rig)
    assert seconds(told.phases) == [
        ("normal", 0, 6),
        ("failing", 6, 11.001),
        ("reduced capacity", 11.001, 31),
    ]
    assert told.phases[1].why == "6 of 6 requests that ended failed: first_byte_timeout 6"


def test_sentences_tell_times_as_the_tables_beside_them_do() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(1).eject("a")
    since_ms = rig.at_ms
    rig.pass_s(5).same("b")
    last_ms = rig.at_ms
    rig.pass_s(60).restart()
    told = tell_incident(source_of(rig), since_ms + 1000, last_ms + 20_000)
    texts = [line.text for line in told.timeline]
    cause = told.first_cause
    assert cause is not None
    texts += [cause.text, *(one.text for one in (*cause.before, *cause.evidence))]
    texts += [one.why for one in told.phases]
    assert any(f"EJECTED (refused) since {clock_time(since_ms)}" in text for text in texts)
    assert any(f"died at or after {clock_time(last_ms)} and started" in text for text in texts)
    assert not any(local_iso(at_ms) in text for text in texts for at_ms in (since_ms, last_ms))
