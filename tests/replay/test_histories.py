"""Sessions, replicas, requests, the last decisions, and moments of the past."""

import re
from io import StringIO
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from eventlog.memory import MemoryStore
from tests.replay.rig import busy_day, source_of, store_of
from tests.rig import Flown, Rig
from trioroute.events import Spilled
from trioroute.policy.commands import Refuse, Stop
from trioroute.policy.keys import HEX_KEY_BYTES, KEY_BYTES, digest_key
from trioroute.projections.digest import digest
from trioroute.replay.clock import local_iso
from trioroute.replay.find import last_decisions, numbers_of_request, parse_decision
from trioroute.replay.histories import decision_table, present_moment, present_replica
from trioroute.replay.moment import tell_moment
from trioroute.replay.read import BadQuestion, CannotRead, NotFound, Past, Source
from trioroute.replay.replica import tell_replica
from trioroute.replay.session import read_secret, tell_session
from trioroute.replay.within import Within
from trioroute.replay.words import pin_words

SECRET, EARLY_SECRET = bytes(range(KEY_BYTES)), bytes(range(HEX_KEY_BYTES))


def test_the_fold_of_a_log_is_the_live_state() -> None:
    rig = busy_day(200)
    source = source_of(rig)
    past = Past("router/r1")
    for record in source.records():
        past.fold(record, source.event(record))
    assert digest(past.state) == digest(rig.state)


@pytest.mark.parametrize("secret", [SECRET, EARLY_SECRET])
def test_a_session_is_found_by_its_raw_key_and_by_its_digest(secret: bytes) -> None:
    rig = Rig().live("a", "b")
    key = digest_key(secret, "session", "m", "conversation-7")
    first = rig.use(key)
    rig.use("other")
    rig.scrape(a=(1, 2), b=(0, 0))
    spilled = rig.use(key)
    source = source_of(rig)
    told = tell_session(source, "conversation-7", secret)
    assert told == tell_session(source, key, None)
    assert told.keys == (key,)
    assert [row.decision for row in told.decisions] == [
        f"r1/{first.number}",
        f"r1/{spilled.number}",
    ]
    assert all(row.end is not None and row.end.outcome == "ok" for row in told.decisions)
    assert [(line.event, line.place) for line in told.pin_events] == [
        ("Bound", f"r1/{first.number}"),
        ("Spilled", f"r1/{spilled.number}"),
    ]


def test_the_end_of_a_session_pin_has_its_cause() -> None:
    rig = Rig().live("a", "b")
    rig.use("s")
    rig.calm(3700, step_s=600)
    told = tell_session(source_of(rig), "s", None)
    assert told.pin_events[-1].text == "session pin to a removed: its time was over"


def test_an_unknown_session_says_what_is_needed() -> None:
    source = source_of(busy_day(10))
    with pytest.raises(NotFound, match="must lie beside the log"):
        tell_session(source, "nobody", None)
    with pytest.raises(NotFound, match="neither as a raw key nor as a digest"):
        tell_session(source, "nobody", SECRET)


def test_the_secret_lies_beside_the_log(tmp_path: Path) -> None:
    assert read_secret(tmp_path) is None
    (tmp_path / "key").write_text(SECRET.hex() + "\n")
    assert read_secret(tmp_path) == SECRET
    assert read_secret(tmp_path / "log-1.sqlite") == SECRET
    (tmp_path / "key").write_text("not hex")
    with pytest.raises(CannotRead, match="does not hold a key"):
        read_secret(tmp_path)


def test_a_replica_has_a_history_and_counts() -> None:
    rig = Rig().live("a", "b")
    at = local_iso(rig.at_ms)[11:23]
    rig.use("s")
    rig.go("s")
    rig.fail_scrape("a")
    rig.fail_scrape("a")
    told = tell_replica(source_of(rig), "a")
    assert [line.text for line in told.history] == [
        "joined or changed: http://a:1 (vllm), models m",
        f"LIVE: its first good scrape (r1/5 at {at}: 0 running, 0 waiting)",
        "scrape failed: timeout",
        "EJECTED for at least 30 s: timeout (a scrape), eject 1 in a row",
    ]
    assert told.history[2].times == 2
    assert told.dispatches == {"load": 1, "affinity:session": 1}
    assert told.endings == {"ok": 1}
    assert told.in_flight == 1


def test_requests_held_against_it_stand_before_its_eject() -> None:
    rig = Rig().live("a", "b")
    for _ in range(3):
        rig.finish(rig.go("s"), "upstream_error")
    told = tell_replica(source_of(rig), "a")
    texts = [line.text for line in told.history]
    assert texts[-1].startswith("EJECTED for at least 30 s: status")
    held = "on a: it answered 500; its client got 500 as the replica answered it"
    assert [text.endswith(held) for text in texts] == [False, False, True, True, True, False]


@pytest.mark.parametrize("failed", [True, False])
def test_where_no_health_changed_it_says_what_lists_the_attempts_that_failed(failed: bool) -> None:
    rig = Rig().live("a")
    rig.pass_s(1)
    since_ms = rig.at_ms
    rig.finish(rig.go(), "upstream_error" if failed else "ok")
    told = tell_replica(source_of(rig), "a", within=Within(since_ms))
    printed = StringIO()
    present_replica(Console(file=printed, width=200), told)
    shown = "history     none: its health did not change in this time"
    listed = "; --requests --where replica=a --where attempt=failed lists what failed"
    assert f"{shown}{listed if failed else ''}\n" in printed.getvalue()


def test_a_replicas_way_back_is_told() -> None:
    rig = Rig().live("a", "b")
    rig.probing("a")
    rig.calm(18)
    texts = [line.text for line in tell_replica(source_of(rig), "a").history]
    out, probing, live = texts[-3:]
    assert out.startswith("EJECTED for at least 30 s")
    assert re.fullmatch(
        r"PROBING: cooldown over for .*, and 2 good scrapes in a row "
        r"\(r1/\d+ at [\d:.]+: the same as before; r1/\d+ at [\d:.]+: the same as before\)",
        probing,
    )
    assert re.fullmatch(r"LIVE: 1\d(\.\d)? s in PROBING without a failure held against it", live)
    assert texts[1].startswith("LIVE: its first good scrape (r1/")


def test_a_scrape_that_failed_in_the_cooldown_makes_the_good_ones_before_it_no_evidence() -> None:
    rig = Rig().live("a", "b")
    rig.eject("a")
    rig.pass_s(31).scrape(a=(5, 0))
    rig.fail_scrape("a")
    rig.pass_s(1).scrape(a=(1, 0))
    rig.pass_s(1).scrape(a=(2, 3))
    (probing,) = [line.text for line in tell_replica(source_of(rig), "a").history][-1:]
    assert "2 good scrapes in a row" in probing
    assert "1 running, 0 waiting" in probing
    assert "2 running, 3 waiting" in probing
    assert "5 running" not in probing


def test_an_unknown_replica_names_the_known_ones() -> None:
    source = source_of(Rig().live("gpu1", "gpu2"))
    with pytest.raises(NotFound, match="it knows gpu1, gpu2; did you mean 'gpu2'"):
        tell_replica(source, "gp2")


def test_a_request_is_all_of_its_attempts() -> None:
    rig = Rig().live("a", "b")
    first = rig.go()
    rig.fail(first, status=502)
    second = rig.retry(first)
    assert isinstance(second, Flown)
    found = numbers_of_request(source_of(rig), first.event.request_id)
    assert found == {"router/r1": [first.number, second.number]}


def test_a_request_that_never_went_anywhere_is_told() -> None:
    rig = Rig().live("a")
    rig.do(Refuse(at_ms=rig.at_ms, request_id="late", code="overloaded"))
    with pytest.raises(NotFound, match="never dispatched: it was refused, overloaded at 20"):
        numbers_of_request(source_of(rig), "late")
    with pytest.raises(NotFound, match="no decision of request 'lat'"):
        numbers_of_request(source_of(rig), "lat")


def test_the_last_decisions_have_their_ends_however_far_back_they_lie() -> None:
    rig = busy_day(120)
    long_ago = rig.go()
    for _ in range(400):
        rig.same()
    rig.finish(long_ago)
    flying = rig.go()
    rows = last_decisions(source_of(rig), 2)
    assert [row.decision for row in rows] == [f"r1/{long_ago.number}", f"r1/{flying.number}"]
    assert rows[0].end is not None
    assert rows[0].end.outcome == "ok"
    assert rows[1].end is None
    everything = last_decisions(source_of(rig), 10_000)
    assert len(everything) == sum(e.kind == "Dispatched" for e in rig.log.entries)
    assert everything[-2:] == rows


def test_a_moment_is_the_state_of_then() -> None:
    rig = Rig().live("a", "b")
    rig.pass_s(1)
    flown = rig.go("s")
    then_ms = rig.at_ms
    rig.pass_s(1)
    rig.finish(flown)
    rig.eject("b")
    (moment,) = tell_moment(source_of(rig), then_ms + 500)
    assert (moment.in_flight, moment.session_pins, moment.at_ms) == (1, 1, then_ms + 500)
    assert [flight.age_ms for flight in moment.oldest] == [500]
    assert [seen.state for seen in moment.replicas] == ["LIVE", "LIVE"]
    (end,) = tell_moment(source_of(rig), then_ms + 10**9)
    assert (end.at_ms, end.in_flight) == (rig.at_ms, 0)
    assert [seen.state for seen in end.replicas] == ["LIVE", "EJECTED"]


def test_before_the_log_nothing_is_known() -> None:
    rig = Rig().live("a")
    with pytest.raises(NotFound, match="the log begins at"):
        tell_moment(source_of(rig), 0)


def test_decisions_are_named_with_or_without_the_router() -> None:
    source = source_of(Rig().live("a"))
    assert parse_decision(source, "r1/42") == ("router/r1", 42)
    assert parse_decision(source, "42") == ("router/r1", 42)
    for text in ("", "r1/", "r1/x", "/5", "r1/5/6", "r1/-5"):
        with pytest.raises(BadQuestion, match="such as r1/42"):
            parse_decision(source, text)


def test_an_empty_log_says_so() -> None:
    source = Source(store_of([*Rig().log.entries]))
    assert last_decisions(source, 3) == []
    with pytest.raises(NotFound, match="empty"):
        Source(MemoryStore()).last()


def test_a_replica_since_some_time_is_what_its_rows_tell_from_there_on() -> None:
    rig = busy_day(400)
    source = source_of(rig)
    since_ms = rig.log.entries[len(rig.log.entries) // 2].at_ms
    begin = source.reader.last_until(since_ms - 1)
    numbers = {
        row.version
        for row in source.records(begin)
        if row.kind == "Dispatched" and orjson.loads(row.body)["replica"] == "c"
    }
    told = tell_replica(source, "c", within=Within(since_ms))
    assert sum(told.dispatches.values()) == len(numbers) > 2
    assert sum(told.endings.values()) + told.in_flight == len(numbers)
    assert told.since_ms == since_ms
    whole = tell_replica(source, "c")
    assert whole.since_ms is None
    late = [line for line in whole.history if line.at_ms >= since_ms]
    assert late
    assert [line.place for line in told.history] == [line.place for line in late]
    with pytest.raises(NotFound, match="nothing is told of 'x' since 2"):
        tell_replica(source, "x", within=Within(since_ms))
    with pytest.raises(NotFound, match="the log has no event since 2"):
        tell_replica(source, "c", within=Within(source.last().at_ms + 1))


def test_a_replicas_history_is_in_order_of_time() -> None:
    rig = Rig().live("a", "b")
    for _ in range(3):
        rig.pass_s(1).finish(rig.go("s"), "upstream_error")
        rig.pass_s(1).fail_scrape("a", "timeout")
        rig.pass_s(1).same()
    times = [line.at_ms for line in tell_replica(source_of(rig), "a").history]
    assert times == sorted(times)


def test_a_pins_sentence_names_the_replica_it_means() -> None:
    assert pin_words(
        Spilled(kind="session", key="k", replica="a", cause="full", to="b", count=2, dispatch=1)
    ) == ("session pin to a spilled to b: a is full, spill 2 in a row")


def test_a_request_that_the_router_left_says_so() -> None:
    rig = Rig().live("a")
    rig.go("s")
    rig.restart()
    (row,) = tell_session(source_of(rig), "s", None).decisions
    printed = StringIO()
    Console(file=printed, width=140).print(decision_table([row], rig.at_ms))
    assert "router died" in printed.getvalue()


def test_a_moment_in_which_no_router_ran_says_so() -> None:
    rig = Rig().live("a")
    before_ms = rig.at_ms
    rig.pass_s(10)
    rig.do(Stop(at_ms=rig.at_ms, cause="signal"))
    stopped_ms = rig.at_ms
    rig.pass_s(86)
    rig.restart()
    started_ms = rig.at_ms
    rig.scrape(a=(0, 0))
    last_ms = rig.at_ms
    rig.pass_s(20)
    rig.restart()
    source = source_of(rig)

    def down(at_ms: int) -> str | None:
        (moment,) = tell_moment(source, at_ms)
        printed = StringIO()
        present_moment(Console(file=printed, width=400), moment, rig.at_ms)
        assert (moment.down is None) == ("its last row left" not in printed.getvalue())
        return moment.down

    stopped, started = local_iso(stopped_ms), local_iso(started_ms)
    said = f"no router ran then: it stopped {stopped} and started {started}"
    assert down(stopped_ms + 1000) == down(stopped_ms) == said
    assert down(before_ms) is down(started_ms) is down(last_ms) is down(rig.at_ms + 99) is None
    died, again = local_iso(last_ms), local_iso(rig.at_ms)
    assert down(last_ms + 1000) == (
        f"no row is of that time: the router died at or after {died} and started {again}"
    )
    rig.do(Stop(at_ms=rig.at_ms, cause="signal"))
    (end,) = tell_moment(source_of(rig), rig.at_ms + 99)
    assert end.down is not None
    assert end.down.endswith("did not start again in this log")
