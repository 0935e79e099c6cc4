"""``--incident``: phases, the first cause, who was hit and which rules acted, as rows tell it."""

import re
from collections import Counter

import attrs
import orjson
import pytest

import trioroute.replay.ahead as ahead
from eventlog.record import Entry, Record
from tests.replay.logs import played, source_of
from tests.replay.rig import STREAM, store_of
from tests.replay.rig import source_of as source_of_rig
from tests.rig import BEGIN_MS, Flown, Rig
from trioroute.policy.commands import Refuse, Stop
from trioroute.replay.clock import local_iso
from trioroute.replay.incident import Incident, tell_incident
from trioroute.replay.incident.bins import bin_of, edge_of
from trioroute.replay.incident.course import PHASES_MAX, Course
from trioroute.replay.incident.groups import GROUPS_MAX
from trioroute.replay.incident.steps import STEPS
from trioroute.replay.incident.told import Hit
from trioroute.replay.read import NotFound, Source
from trioroute.replay.what_if import take_again
from trioroute.replay.window import Window

FAULTS = "replica=1,down=60..120"


def whole(source: Source) -> Incident:
    return tell_incident(source, 1, source.last().at_ms)


def of_rig(rig: Rig) -> Incident:
    return whole(source_of_rig(rig))


def phases(told: Incident) -> list[str]:
    return [phase.name for phase in told.phases]


@pytest.fixture(scope="module")
def outage() -> Incident:
    return whole(source_of(played(1500, faults=FAULTS)[0]))


def rows(entries: tuple[Entry, ...], kind: str) -> list[dict[str, object]]:
    return [orjson.loads(entry.body) for entry in entries if entry.kind == kind]


def test_phases_follow_each_other_without_hole_or_overlap(outage: Incident) -> None:
    assert phases(outage) == ["normal", "reduced capacity", "recovery", "normal"]
    assert outage.phases[0].from_ms == outage.from_ms
    assert outage.phases[-1].to_ms == outage.to_ms
    for one, after in zip(outage.phases, outage.phases[1:], strict=False):
        assert one.from_ms < one.to_ms == after.from_ms


def test_phases_begin_with_the_rows_that_make_them(outage: Incident) -> None:
    entries, _ = played(1500, faults=FAULTS)
    at = {kind: [x.at_ms for x in entries if x.kind == kind] for kind in ("Ejected", "Probing")}
    lives = [x.at_ms for x in entries if x.kind == "Live"]
    assert [one.from_ms for one in outage.phases[1:]] == [
        *at["Ejected"],
        *at["Probing"],
        lives[-1],
    ]


def test_the_first_cause_is_the_eject_with_the_rows_that_led_to_it(outage: Incident) -> None:
    cause = outage.first_cause
    assert cause is not None
    assert cause.text.startswith("gpu1 EJECTED for at least 30 s: reset")
    assert cause.evidence
    entries, _ = played(1500, faults=FAULTS)
    assert cause.place is not None
    assert entries[int(cause.place.split("/")[1]) - 1].kind == "Ejected"
    for line in cause.evidence:
        row = entries[int(line.place.split("/")[1]) - 1]
        assert (row.kind, row.at_ms) == (line.event, line.at_ms)
        assert "gpu1" in line.text


def test_counts_are_those_of_the_rows(outage: Incident) -> None:
    entries, _ = played(1500, faults=FAULTS)
    dispatched = Counter(body["replica"] for body in rows(entries, "Dispatched"))
    steps: Counter[object] = Counter()
    for step in outage.steps:
        steps.update(step.dispatches)
    assert steps == dispatched
    assert outage.total.requests == dispatched.total()
    endings = Counter(body["outcome"] for body in rows(entries, "Released"))
    assert outage.endings == endings
    assert outage.total.failed == endings["upstream_cut"] > 0
    assert outage.spills == Counter(body["cause"] for body in rows(entries, "Spilled"))
    assert outage.rebinds == Counter(body["cause"] for body in rows(entries, "Rebound"))
    assert sum(step.spills for step in outage.steps) == sum(outage.spills.values())
    assert len(outage.steps) <= STEPS


def test_lanes_cover_every_replica_from_begin_to_end(outage: Incident) -> None:
    for name in ("gpu1", "gpu2", "gpu3", "gpu4"):
        mine = [lane for lane in outage.lanes if lane.replica == name]
        assert mine[-1].to_ms == outage.to_ms
        assert sum(lane.to_ms - lane.from_ms for lane in mine) == outage.to_ms - outage.from_ms
    states = [lane.state for lane in outage.lanes if lane.replica == "gpu1"]
    assert states == ["LIVE", "EJECTED", "PROBING", "LIVE"]


def test_the_hint_is_the_first_difference_of_the_what_if(outage: Incident) -> None:
    (hint,) = [text for text in outage.hints if "spills_to_rebind" in text]
    found = re.fullmatch(r"(r1/\d+) moved .* with pins\.spills_to_rebind=(\d+) it .*", hint)
    assert found is not None
    source = source_of(played(1500, faults=FAULTS)[0])
    exact = take_again(source, {"pins.spills_to_rebind": found[2]}, Window())
    assert exact.first is not None
    assert exact.first.decision == found[1]


def test_part_of_a_log_is_told_from_the_state_before_it(outage: Incident) -> None:
    source = source_of(played(1500, faults=FAULTS)[0])
    reduced = outage.phases[1]
    told = tell_incident(source, reduced.from_ms + 1000, reduced.to_ms + 5000)
    assert phases(told) == ["reduced capacity", "recovery"]
    assert told.first_cause is not None
    assert "gpu1 is EJECTED (reset) since" in told.first_cause.text
    assert told.first_cause.evidence == ()
    states = [lane.state for lane in told.lanes if lane.replica == "gpu1"]
    assert states == ["EJECTED", "PROBING"]


def test_an_eject_with_requests_on_it_lasts_until_they_ended() -> None:
    rig = Rig().live("a", "b")
    flown = rig.go()
    rig.pass_s(5).fail_scrape(flown.replica)
    rig.pass_s(3).fail_scrape(flown.replica)
    rig.calm(6, "b" if flown.replica == "a" else "a")
    rig.pass_s(1).fail(flown, cause="timeout")
    again = rig.retry(flown)
    assert isinstance(again, Flown)
    rig.pass_s(1).finish(again)
    told = of_rig(rig)
    assert phases(told) == ["normal", "eject", "reduced capacity"]
    eject = told.phases[1]
    assert (eject.from_ms, eject.to_ms) == (BEGIN_MS + 5000, BEGIN_MS + 15_000)
    assert told.first_cause is not None
    assert [line.text for line in told.first_cause.evidence] == ["a: scrape failed: timeout"] * 2
    assert "eject.scrape_failures=3 it would not have come there" in told.hints[0]
    assert (told.total.requests, told.total.failed, told.total.retried) == (1, 0, 1)
    assert told.total.delayed is None
    acted = {one.rule: one.count for one in told.rules}
    assert acted["6.2"] == acted["4.6"] == 1


def test_flapping_overload_and_restart_have_their_phases() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(1).eject("b")
    rig.calm(80)
    rig.eject("b")
    rig.calm(120)
    rig.eject("b")
    rig.pass_s(5)
    rig.do(Refuse(at_ms=rig.at_ms, request_id="q", code="overloaded"))
    rig.pass_s(20).same()
    rig.pass_s(5)
    rig.restart()
    rig.pass_s(1).same()
    told = of_rig(rig)
    assert phases(told) == [
        "normal",
        "reduced capacity",
        "recovery",
        "normal",
        "reduced capacity",
        "recovery",
        "normal",
        "flapping",
        "overload",
        "flapping",
        "restart",
        "flapping",
    ]
    assert told.phases[7].why == "b EJECTED again: eject 3 in a row"
    over = told.phases[8]
    assert over.to_ms - over.from_ms == 1  # the one refusal
    assert told.refusals == {"overloaded": 1}
    assert told.hit == (
        Hit(model=None, key=None, requests=1, failed=0, retried=0, delayed=None, refused=1),
    )
    assert any("the router died and started again" in line.text for line in told.timeline)
    assert {"4.7", "6.7", "6.4", "6.5"} <= {one.rule for one in told.rules}


def test_queues_everywhere_are_overload() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(3).scrape(a=(4, 2), b=(4, 0))
    for _ in range(5):
        rig.pass_s(3).scrape(a=(4, 2), b=(4, 3))
    for _ in range(5):
        rig.pass_s(3).scrape(a=(4, 0), b=(4, 3))
    told = of_rig(rig)
    assert phases(told) == ["normal", "overload", "normal"]
    over = told.phases[1]
    assert (over.from_ms, over.to_ms) == (BEGIN_MS + 6000, BEGIN_MS + 28_000)
    assert told.first_cause is not None
    assert told.first_cause.text == "overload: requests wait at every LIVE replica: a 2, b 3"


def test_one_scrape_that_finds_queues_everywhere_is_no_overload() -> None:
    rig = Rig().live("a", "b")
    for _ in range(4):
        rig.pass_s(3).scrape(a=(4, 2), b=(4, 3))
        for _ in range(4):
            rig.pass_s(3).scrape(a=(4, 0), b=(4, 3))
    told = of_rig(rig)
    assert phases(told) == ["normal"]
    assert told.first_cause is None


def test_orderly_restarts_and_lost_requests_are_told() -> None:
    rig = Rig().live("a", "b")
    rig.go()
    rig.pass_s(2)
    rig.restart()
    rig.pass_s(2)
    rig.do(Stop(at_ms=rig.at_ms, cause="SIGTERM"))
    rig.pass_s(4)
    rig.restart()
    told = of_rig(rig)
    texts = [line.text for line in told.timeline]
    assert any(
        text.startswith("1 request had no end: the router died under them, between its last row at")
        for text in texts
    )
    assert "the router stopped in order: SIGTERM" in texts
    assert sum("died" in text and "started again" in text for text in texts) == 1
    assert told.endings == {"unknown": 1}
    assert (told.total.failed, phases(told)[-1]) == (1, "restart")


def test_an_attempt_that_nothing_follows_is_a_failed_request() -> None:
    rig = Rig().live("a")
    rig.fail(rig.go(), cause="status", status=500)
    told = of_rig(rig)
    assert told.endings == {"every attempt failed": 1}
    assert (told.total.failed, told.total.retried) == (1, 0)


def test_models_and_keys_are_told_apart() -> None:
    entries, _ = played(200)
    named = []
    for number, entry in enumerate(entries):
        body = orjson.loads(entry.body)
        if entry.kind == "Dispatched":
            body["key"] = f"team-{number % 2}"
            entry = attrs.evolve(entry, body=orjson.dumps(body))
        named.append(entry)
    told = whole(source_of(named))
    assert {(one.model, one.key) for one in told.hit} == {("sim", "team-0"), ("sim", "team-1")}
    assert sum(one.requests for one in told.hit) == told.total.requests


def test_made_up_models_do_not_grow_the_table() -> None:
    rig = Rig().live("a")
    for number in range(GROUPS_MAX + 20):
        name = f"m{number}"
        rig.do(Refuse(at_ms=rig.at_ms, request_id=name, code="model_not_found", model=name))
    told = of_rig(rig)
    assert len(told.hit) == GROUPS_MAX + 1
    assert told.hit[0].model == "(others)"
    assert told.total.refused == GROUPS_MAX + 20


def test_missing_rows_are_told_and_the_rest_counted() -> None:
    entries = list(played(200)[0])
    later = store_of(entries)
    records = [row for row in later.read(0, 10_000) if row.version <= 100 or row.version > 110]

    class Torn:
        """A reader whose rows 101 to 110 are gone."""

        def __getattr__(self, name: str) -> object:
            return getattr(later, name)

        def read(self, after: int, limit: int) -> list[Record]:
            return [row for row in records if row.seq > after][:limit]

    told = whole(Source(Torn()))  # type: ignore[arg-type]  # the few methods this asks for
    assert told.notes == ("rows are missing before r1/111: what they told is not counted",)
    assert told.total.requests > 150


def test_progress_is_told_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PART_ROWS", 1000)
    source = source_of(played(1500, faults=FAULTS)[0])
    told: list[tuple[int, int]] = []
    tell_incident(source, 1, source.last().at_ms, lambda done, of: told.append((done, of)))
    rows = source.last().seq
    assert told == [*((done, rows) for done in range(1000, rows, 1000)), (rows, rows)]


def test_a_span_without_rows_says_what_there_is() -> None:
    source = source_of(played(200)[0])
    with pytest.raises(NotFound, match="the log holds 2023-11-14"):
        tell_incident(source, 1000, 2000)
    assert source.last().stream == STREAM


def test_a_span_after_the_log_is_named_as_it_was_asked_for() -> None:
    source = source_of(played(200)[0])
    end_ms = source.last().at_ms
    begin, end = local_iso(end_ms + 60_000), local_iso(end_ms + 600_000)
    with pytest.raises(NotFound) as caught:
        tell_incident(source, end_ms + 60_000, end_ms + 600_000)
    assert str(caught.value).startswith(f"no event is between {begin} and {end}: the log holds ")


def test_bins_hold_their_edges() -> None:
    for ms in (*range(2000), 60_000, 10**9):
        place = bin_of(ms)
        assert edge_of(place) <= ms
        assert ms < edge_of(place + 1) or ms >= 10**9
    assert bin_of(1 << 80) == bin_of(1 << 90)


def test_a_course_is_bounded_and_says_so() -> None:
    course = Course("normal", 0)
    for at in range(1, PHASES_MAX + 50):
        course.turn(at, "eject" if at % 2 else "normal", "")
    assert course.cut
    assert len(course.finish(10_000)) == PHASES_MAX + 1
