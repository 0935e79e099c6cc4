"""``--what-if``, the exact part: every recorded decision again, under other settings."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from eventlog.reading import SqliteReader
from eventlog.record import Entry, Record
from eventlog.snapshots import Snapshots
from tests.replay.cut_logs import keep_snapshots, write_log
from tests.replay.logs import naive_differences, played, source_of
from tests.replay.rig import busy_day, changed, store_of
from tests.rig import Rig, settings
from trioroute.cli.what_if import answer
from trioroute.events import Dispatched, Event
from trioroute.policy.commands import Refuse
from trioroute.policy.decide import arrive_of, decide
from trioroute.projections import State
from trioroute.replay.acting import ON_THE_CHOICE, idle, why_not
from trioroute.replay.caveats import caveats
from trioroute.replay.read import NotFound, Source
from trioroute.replay.what_if import Exact, Onlooker, take_again
from trioroute.replay.window import Window
from trioroute.replay.within import Within
from trioroute.settings import KNOWN_KEYS


def asked(entries: Sequence[Entry], **changes: object) -> Exact:
    wanted = {key.replace("__", "."): value for key, value in changes.items()}
    return take_again(source_of(entries), wanted, Onlooker())


def test_without_a_change_no_decision_differs() -> None:
    entries, _ = played()
    found = asked(entries, policy__slack__session=1)
    assert found.decisions == 400
    assert (found.differ, found.unproved, found.causes, found.first) == (0, 0, {}, None)


def test_a_wider_slack_changes_what_a_naive_count_says() -> None:
    entries, _ = played()
    assert naive_differences(entries, 1) == []
    naive = naive_differences(entries, 4)
    found = asked(entries, policy__slack__session=4)
    assert len(naive) > 20
    # Every pin that was left and would be used: its home is another replica than it went to, or
    # the same for another reason.
    assert found.kinds["replica"] + found.kinds["reason"] == len(naive)
    assert found.causes["would have used the session pin"].count >= found.kinds["replica"]


def test_a_narrower_slack_changes_what_a_naive_count_says() -> None:
    entries, _ = played()
    naive = naive_differences(entries, 0)
    found = asked(entries, policy__slack__session=0)
    assert len(naive) > 20
    assert found.kinds["replica"] + found.kinds["reason"] == len(naive)
    left = "would have left the session pin: more run there than the slack allows"
    assert any(cause.startswith(left) for cause in found.causes)


def test_the_first_difference_is_told_both_ways() -> None:
    entries, _ = played()
    first = asked(entries, policy__slack__session=4).first
    assert first is not None
    assert first.decision == f"r1/{naive_differences(entries, 4)[0]}"
    recorded, other = first.recorded, first.changed
    assert (recorded.reason, other.reason) == ("load", "affinity:session")
    assert "slack 1" in recorded.because
    assert "slack 4" in other.because
    assert other.pin is not None
    assert other.replica == other.pin.replica != recorded.replica
    assert recorded.events[0]["replica"] == recorded.replica
    assert [event["event"] for event in recorded.events] == ["Dispatched", "Spilled"]
    assert [event["event"] for event in other.events] == ["Dispatched"]
    assert recorded.replicas == other.replicas


def test_a_difference_does_not_rest_on_another() -> None:
    """What is counted for a decision is the same when the log ends right after it."""
    entries, _ = played()
    naive = naive_differences(entries, 4)
    cut = naive[9]
    assert asked(entries[:cut], policy__slack__session=4).differ == 10


def test_rules_of_pins_change_pins_only() -> None:
    entries, _ = played()
    found = asked(entries, pins__spills_to_rebind=1)
    assert found.kinds["replica"] == found.kinds["reason"] == 0
    rebound = "the same choice, would have been rebound (session pin)"
    assert found.causes[rebound].count == found.kinds["pins"] == found.differ > 5


def test_a_weight_alone_is_no_other_decision() -> None:
    rig = Rig().live("a", "b")
    for number in range(4):
        rig.go(f"s{number}", tokens=1000)
    found = asked(rig.log.entries, wlc__unit_tokens=500)
    assert found.kinds["weight"] == 4
    assert found.differ == 0
    assert found.first is None


def test_another_policy_goes_where_it_says_the_least_work_is() -> None:
    entries, _ = played()
    found = asked(entries, policy__name="least-work")
    assert found.kinds["replica"] > 50
    assert found.kinds["pins"] == 0
    assert found.causes["least work elsewhere"].count == found.kinds["replica"]
    first = found.first
    assert first is not None
    assert (first.recorded.policy, first.changed.policy) == ("soft-sticky", "least-work")
    least = min(first.changed.work, key=lambda one: one.total)
    assert least.total == next(
        one.total for one in first.changed.work if one.name == first.changed.replica
    )
    assert len(first.changed.work) == len(first.recorded.replicas) == 4
    assert "nowhere cached" in caveats(found, {"policy.name": "least-work"})[0]


def test_a_least_work_log_knows_its_prompts() -> None:
    entries, _ = played(policy="least-work")
    same = asked(entries, policy__name="least-work")
    assert (same.differ, same.unproved) == (0, 0)
    other = asked(entries, policy__name="soft-sticky")
    assert other.kinds["replica"] > 50
    assert other.first is not None
    assert any(one.cached for one in other.first.recorded.work)
    assert "makes no pins" in caveats(other, {"policy.name": "soft-sticky"})[0]


def test_a_log_that_is_not_reproduced_is_left_out() -> None:
    rig = busy_day(100)
    number = next(n for n, e in enumerate(rig.log.entries, 1) if e.kind == "Dispatched")
    entries = changed(rig.log.entries, number, weight_m=7)
    found = asked(entries, policy__slack__session=1)
    assert found.unproved >= 1
    assert found.differ == 0


def test_each_router_has_its_own_past() -> None:
    store = store_of(busy_day(60).log.entries)
    store.append("router/r2", busy_day(60, seed=2).log.entries, 0)
    both = take_again(Source(store), {"policy.slack.session": 3}, Onlooker())
    alone = [asked(busy_day(60, seed=n).log.entries, policy__slack__session=3) for n in (1, 2)]
    assert both.decisions == sum(one.decisions for one in alone)
    assert both.differ == sum(one.differ for one in alone) > 0


CHANGE: dict[str, object] = {"policy.slack.session": 4}


def in_thirds(log: Path) -> list[tuple[Exact, Window]]:
    """The decisions of each third of a log's time, taken again by themselves."""
    with SqliteReader.open(log) as reader:
        source = Source(reader, snapshots=Snapshots(log))
        begin, end = next(source.records()).at_ms, source.last().at_ms
        cuts = [begin + (end - begin) * part // 3 for part in (1, 2)]
        found = []
        for since, until in zip((0, *cuts), (*[cut - 1 for cut in cuts], None), strict=True):
            window = Window()
            exact = take_again(source, CHANGE, window, within=Within(since, until))
            found.append((exact, window))
        return found


def test_the_parts_of_a_log_add_up_to_the_whole(tmp_path: Path) -> None:
    entries, _ = played()
    log = write_log(tmp_path / "log", entries)
    whole = asked(entries, policy__slack__session=4)
    without = in_thirds(log)
    keep_snapshots(log, len(entries) // 2)
    for parts in (without, in_thirds(log)):
        assert sum(exact.decisions for exact, _ in parts) == whole.decisions == 400
        assert all(exact.decisions > 50 for exact, _ in parts)
        assert sum(exact.events for exact, _ in parts) == whole.events == len(entries)
        causes: Counter[str] = Counter()
        for exact, _ in parts:
            causes.update({name: one.count for name, one in exact.causes.items()})
            assert exact.settings == whole.settings
        assert causes == {name: one.count for name, one in whole.causes.items()}
        assert parts[0][0].first == whole.first
    assert [exact for exact, _ in without] == [exact for exact, _ in parts]
    assert [one.requests for _, one in without] == [one.requests for _, one in parts]


def test_requests_of_before_the_span_warm_a_simulation_up(tmp_path: Path) -> None:
    entries, _ = played()
    log = write_log(tmp_path / "log", entries)
    for exact, window in in_thirds(log)[1:]:
        assert window.begun is not None
        early = [one for one in window.before if one.at_ms < exact.begin_ms]
        assert len(early) > 50


def test_a_span_without_a_row_is_not_found() -> None:
    entries, _ = played()
    source, end = source_of(entries), entries[-1].at_ms
    for within, text in (
        (Within(end + 1), "since"),
        (Within(0, entries[0].at_ms - 1), "until"),
        (Within(end + 1, end + 5), "between"),
    ):
        with pytest.raises(NotFound, match=f"the log has no event {text} 2.*it holds 2"):
            take_again(source, CHANGE, Onlooker(), within=within)


class Watched:
    """Settings that note which of their fields are read."""

    def __init__(self, inner: object, path: str, read: set[str]) -> None:
        self._inner, self._path, self._read = inner, path, read

    def __getattr__(self, name: str) -> object:
        value = getattr(self._inner, name)
        path = f"{self._path}.{name}".lstrip(".")
        if attrs.has(type(value)):
            return Watched(value, path, self._read)
        self._read.add(path)
        return value


@attrs.define
class Watching(Onlooker):
    read: set[str]

    def row(self, record: Record, event: Event, state: State) -> None:
        if isinstance(event, Dispatched):
            watched: Any = Watched(state.settings, "", self.read)
            again = attrs.evolve(state, settings=watched)
            decide(again, arrive_of(event, record.at_ms, state))


def test_the_keys_that_act_are_those_that_decisions_read() -> None:
    read: set[str] = set()
    for entries in (busy_day(300).log.entries, played(policy="least-work")[0]):
        take_again(source_of(entries), {}, Watching(read))
    keys = {info.field: info.key for info in KNOWN_KEYS.values() if info.field}
    assert {keys[field] for field in read} <= ON_THE_CHOICE
    # PROBING replicas, evictions and full tables are rare in these logs.
    assert ON_THE_CHOICE - {keys[field] for field in read} <= {"probing.max_in_flight"}


def test_every_key_that_does_not_act_says_so() -> None:
    for key, info in KNOWN_KEYS.items():
        if info.field:
            assert (why_not(key) is None) == (key in ON_THE_CHOICE)
    assert idle(["log.path", "policy.load"]) == ["log.path acts on no decision"]
    assert "log holds only the keys" in (why_not("pins.prefix_chars") or "")


def test_refused_requests_are_said_to_be_left_out_and_values_are_those_of_the_span() -> None:
    rig = Rig(settings(admission={"max_in_flight": 6})).live("a")
    rig.finish(rig.go())
    begin_ms = rig.pass_s(10).at_ms
    rig.finish(rig.go())
    for number in range(3):
        refused = Refuse(at_ms=rig.at_ms, request_id=f"r{number}", code="overloaded", model="m")
        rig.do(refused)
    end_ms = rig.at_ms
    rig.pass_s(10).configure(settings(admission={"max_in_flight": 8}))
    rig.finish(rig.go())
    entries = rig.log.entries
    changes: dict[str, object] = {"admission.max_in_flight": "12"}
    told = answer(source_of(entries), changes, lambda *_: None, Within(begin_ms, end_ms))
    assert told.changes[0].recorded == "6"
    (note,) = [one for one in told.notes if "left out" in one]
    assert note.startswith("3 requests refused in this time (overloaded 3) are left out")
    whole = answer(source_of(entries), changes, lambda *_: None)
    assert whole.changes[0].recorded == "6, then 8"
