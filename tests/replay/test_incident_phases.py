"""How long phases of ``--incident`` last, and what they say of why."""

from tests.replay.prevented import told_of
from tests.rig import BEGIN_MS, Rig
from trioroute.policy.commands import Refuse
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
