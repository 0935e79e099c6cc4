"""What ``--incident`` says would have prevented that a pin was left: it names the row, and
played again under the setting that it names, the row is not there."""

import attrs
import pytest

import trioroute.replay.incident.retaken as retaken
from tests.listlog import refold
from tests.replay.logs import played, source_of
from tests.replay.prevented import Script, found, play, row, said, told_of
from tests.replay.rig import busy_day
from tests.rig import Rig
from trioroute import events as e
from trioroute.policy.decide import arrive_of, decide
from trioroute.replay.incident import tell_incident
from trioroute.settings import with_changes


def rows_by(rig: Rig, place: str) -> list[str]:
    """The kinds of a decision and of the rows of pins that it made."""
    number = int(place.rpartition("/")[2])
    kinds = [rig.log.entries[number - 1].kind]
    for entry in rig.log.entries[number:]:
        event = e.decode(entry.kind, entry.schema, entry.body)
        if getattr(event, "dispatch", None) != number or entry.kind in ("Released", "Failed"):
            break
        kinds.append(entry.kind)
    return kinds


def crowded(rig: Rig) -> None:
    """Two more run at the session's pin than at the least, three times; then far more."""
    rig.live("a", "b")
    rig.use("s")
    rig.scrape(a=(2, 0), b=(0, 0))
    for _ in range(3):
        rig.pass_s(1).use("s")


def far_more(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")
    rig.scrape(a=(5, 0), b=(0, 0))
    rig.pass_s(1).use("s")


def shared(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use(None, "p")
    rig.scrape(a=(1, 0), b=(0, 0))
    for _ in range(2):
        rig.pass_s(1).use(None, "p")


def stalled(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")
    for _ in range(25):
        rig.pass_s(3).scrape(a=rig.reading("a", 1, 0, tokens=7), b=(0, 0))
    rig.use("s")


def full(rig: Rig) -> None:
    rig.live("a", "b")
    rig.go("s")
    rig.go("s")


@pytest.mark.parametrize(
    ("script", "setting", "instead", "gone", "given"),
    [
        (crowded, "policy.slack.session", "2", "Spilled", {}),
        (crowded, "pins.spills_to_rebind", "4", "Rebound", {}),
        (far_more, "policy.slack.session", "5", "Spilled", {}),
        (far_more, "pins.force_rebind", "6", "Rebound", {}),
        (shared, "policy.slack.prefix", "1", "Spilled", {}),
        (shared, "pins.prefix_spills_to_drop", "3", "Unbound", {}),
        (full, "admission.max_in_flight", "2", "Spilled", {"admission.max_in_flight": 1}),
    ],
)
def test_a_pin_that_was_left_names_the_number_that_would_have_held(
    script: Script, setting: str, instead: str, gone: str, given: dict[str, object]
) -> None:
    rig = Rig(with_changes(e.InForce(), given))
    script(rig)
    one = found(told_of(rig), setting)
    assert one.instead == instead
    assert gone in rows_by(rig, one.row)
    again = Rig(with_changes(e.InForce(), {**given, setting: one.instead}))
    script(again)
    assert rows_by(again, one.row)[0] == "Dispatched"
    assert gone not in rows_by(again, one.row)


def test_a_pin_to_an_engine_that_stands_still_was_left_rightly() -> None:
    """A longer eject.stall_after would have sent the request into the standstill."""
    told = told_of(play(stalled))
    (one,) = [item for item in told.prevention if item.harm == "pin"]
    assert one.setting is None
    assert one.text.endswith(
        "did not use its session pin: it generates no token, for 1 min 12 s then: rightly, for a "
        "longer eject.stall_after would only have sent it to an engine that stood still"
    )
    assert told.retaken == ()


def test_the_decisions_after_it_are_taken_again_each_from_its_own_past() -> None:
    rig = play(crowded)
    (slack, rebind) = told_of(rig).retaken
    assert (slack.setting, slack.instead) == ("policy.slack.session", "2")
    assert (slack.decisions, slack.spills, slack.spills_then) == (3, 3, 0)
    assert (slack.rebinds, slack.rebinds_then, slack.elsewhere) == (1, 0, 3)
    assert (rebind.spills_then, rebind.rebinds_then, rebind.elsewhere) == (3, 0, 0)
    assert row(rig, slack.first).kind == "Dispatched"
    assert said(told_of(rig))[0] == "pins were left, by which no request fails:"


def test_the_decisions_taken_again_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(played(400)[0])
    end_ms = source.last().at_ms
    whole = tell_incident(source, 1, end_ms).retaken
    assert whole
    assert whole[0].decisions > 100
    monkeypatch.setattr(retaken, "DECISIONS_MAX", 50)
    assert {one.decisions for one in tell_incident(source, 1, end_ms).retaken} == {50}


def test_a_soak_under_faults_names_settings_that_hold() -> None:
    rig = busy_day(600)
    entries = rig.log.entries
    pins = [one for one in told_of(rig).prevention if one.harm == "pin"]
    assert len({one.setting for one in pins}) >= 3
    for one in pins:
        number = int(one.row.rpartition("/")[2])
        state = refold(entries[: number - 1])
        event = e.decode("Dispatched", entries[number - 1].schema, entries[number - 1].body)
        assert isinstance(event, e.Dispatched)
        arrive = arrive_of(event, entries[number - 1].at_ms, state)
        was = decide(state, arrive)
        changed = with_changes(state.settings, {str(one.setting): one.instead})
        now = decide(attrs.evolve(state, settings=changed), arrive)
        assert was[0] == event
        assert now != was
