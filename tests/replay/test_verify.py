"""``verify`` proves a true log and names the first row that is not true."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import attrs
import pytest

from eventlog.errors import LogDamaged
from eventlog.memory import MemoryStore
from eventlog.record import Entry
from eventlog.schema import PAGE_BYTES
from eventlog.sqlite import SqliteReader, SqliteStore
from tests.replay.rig import busy_day, changed, source_of, store_of
from tests.rig import Rig
from trioroute.policy import RULES_VERSION
from trioroute.policy import commands as c
from trioroute.replay.read import CannotRead, Source
from trioroute.replay.verify import Verified, verify


def verify_entries(entries: Sequence[Entry]) -> Verified:
    return verify(Source(store_of(entries)))


def test_a_busy_day_with_a_restart_is_verified() -> None:
    rig = busy_day(600)
    found = verify(source_of(rig))
    assert found.difference is None
    assert found.events == len(rig.log.entries)
    assert found.decisions == sum(e.kind == "Dispatched" for e in rig.log.entries) >= 500
    assert found.digests == sum(e.kind == "Checked" for e in rig.log.entries) >= 1
    assert found.restarts == 1
    assert found.in_flight == len(rig.state.load.flights)


def test_progress_reaches_the_end() -> None:
    told: list[tuple[int, int]] = []
    rig = busy_day(600)
    verify(source_of(rig), lambda done, total: told.append((done, total)))
    assert len(told) > 1
    assert told[-1] == (len(rig.log.entries), len(rig.log.entries))


def verify_after(tmp_path: Path, rig: Rig, sql: str) -> Verified:
    """Write the log to SQLite, change the file behind its back, and verify the file."""
    store = SqliteStore.open(tmp_path / "log", sync="normal")
    store_of(rig.log.entries, store)
    store.close()
    file = tmp_path / "log" / "log-1.sqlite"
    with closing(sqlite3.connect(file)) as db:
        db.execute(sql)
        db.commit()
    with closing(SqliteReader.open(file)) as reader:
        return verify(Source(reader))


def test_a_row_changed_on_disk_is_named(tmp_path: Path) -> None:
    rig = busy_day(60)
    victim = next(i for i, e in enumerate(rig.log.entries, 1) if e.kind == "Released")
    sql = f"UPDATE events SET body = replace(body, '10', '11') WHERE seq = {victim}"
    found = verify_after(tmp_path, rig, sql)
    assert found.difference is not None
    assert (found.difference.what, found.difference.seq) == ("damaged", victim)
    assert "chain" in found.difference.text


@pytest.mark.parametrize("size", [PAGE_BYTES, PAGE_BYTES // 2])
def test_a_page_that_cannot_be_read_is_named_by_its_first_row_after_those_before_it(
    tmp_path: Path, size: int
) -> None:
    """Or that can be read in part: a disk loses less than a page too."""
    with closing(SqliteStore.open(tmp_path / "log", sync="normal")) as store:
        store_of(busy_day(600).log.entries, store)
    path = tmp_path / "log" / "log-1.sqlite"
    with closing(sqlite3.connect(path)) as base:
        victim = 200
        query = "SELECT chain FROM events WHERE seq = ?"
        chain = base.execute(query, (victim,)).fetchone()[0]
    data = bytearray(path.read_bytes())
    begin = data.index(chain) // size * size
    data[begin : begin + size] = bytes(size)
    path.write_bytes(data)
    with SqliteReader.open(path) as reader:
        found = verify(Source(reader))
    assert found.difference is not None
    assert found.difference.what == "damaged"
    assert victim - 100 < found.difference.seq <= victim
    assert found.events == found.difference.seq - 1


def test_a_damaged_head_is_a_finding_after_the_rows_before_it(tmp_path: Path) -> None:
    with closing(SqliteStore.open(tmp_path / "log", sync="normal")) as store:
        store_of(busy_day(600).log.entries, store)
        head = store.head()
    path = tmp_path / "log" / "log-1.sqlite"
    data = bytearray(path.read_bytes())
    begin = data.index(head.chain) // PAGE_BYTES * PAGE_BYTES
    data[begin : begin + PAGE_BYTES] = bytes(PAGE_BYTES)
    path.write_bytes(data)
    with SqliteReader.open(path) as reader:
        with pytest.raises(LogDamaged):
            reader.head()
        found = verify(Source(reader))
    assert found.difference is not None
    assert found.difference.what == "damaged"
    assert head.seq - 100 < found.difference.seq <= head.seq
    assert found.events == found.difference.seq - 1


def test_a_missing_row_is_named(tmp_path: Path) -> None:
    found = verify_after(tmp_path, busy_day(60), "DELETE FROM events WHERE seq = 30")
    assert found.difference is not None
    assert (found.difference.what, found.difference.seq) == ("damaged", 30)


def test_a_log_without_its_beginning_cannot_be_judged(tmp_path: Path) -> None:
    with pytest.raises(CannotRead, match="begins at seq 6"):
        verify_after(tmp_path, busy_day(20), "DELETE FROM events WHERE seq < 6")


def two_decisions() -> tuple[Rig, int, int]:
    rig = Rig().live("a", "b")
    first = rig.go("s", tokens=1000)
    rig.finish(first)
    second = rig.go("s", tokens=1000)
    return rig, first.number, second.number


def test_another_replica_than_decided_is_not_deterministic() -> None:
    rig, _, second = two_decisions()
    found = verify_entries(changed(rig.log.entries, second, replica="b"))
    assert found.difference is not None
    assert found.difference.what == "not deterministic"
    assert found.difference.place == f"r1/{second}"
    assert [getattr(event, "replica", "") for event in found.difference.recorded] == ["b"]
    assert [getattr(event, "replica", "") for event in found.difference.recomputed] == ["a"]
    assert found.decisions == 2


def test_a_decision_of_other_rules_is_a_changed_rule() -> None:
    rig = Rig().live("a", "b")
    rig.do(c.Start(at_ms=rig.at_ms, router="r1", release="0", rules=RULES_VERSION + 1))
    flown = rig.go("s")
    found = verify_entries(changed(rig.log.entries, flown.number, weight_m=7))
    assert found.difference is not None
    assert found.difference.what == "rule changed"
    assert f"rules {RULES_VERSION + 1}" in found.difference.text


def test_pin_events_belong_to_the_decision() -> None:
    rig, first, _ = two_decisions()
    found = verify_entries(changed(rig.log.entries, first + 1, replica="b"))
    assert found.difference is not None
    assert (found.difference.what, found.difference.place) == ("not deterministic", f"r1/{first}")


def test_a_pin_event_left_out_is_found() -> None:
    rig, first, _ = two_decisions()
    without = [*rig.log.entries[:first], *rig.log.entries[first + 1 :]]
    found = verify_entries(without)
    assert found.difference is not None
    assert found.difference.place == f"r1/{first}"
    assert len(found.difference.recorded) == 1
    assert len(found.difference.recomputed) == 2


def test_a_pin_event_cut_off_at_the_end_is_found() -> None:
    rig, first, _ = two_decisions()
    found = verify_entries(rig.log.entries[:first])
    assert found.difference is not None
    assert found.difference.place == f"r1/{first}"


def test_a_pin_event_too_many_is_found() -> None:
    rig, _, second = two_decisions()
    bound = next(e for e in rig.log.entries if e.kind == "Bound")
    more = changed([*rig.log.entries, bound], len(rig.log.entries) + 1, dispatch=second)
    found = verify_entries(more)
    assert found.difference is not None
    assert found.difference.place == f"r1/{second}"
    assert [type(e).__name__ for e in found.difference.recorded] == ["Dispatched", "Bound"]


def test_a_wrong_digest_is_found() -> None:
    rig = busy_day(30)
    rig.pass_s(120).tick()
    checked = next(i for i, e in enumerate(rig.log.entries, 1) if e.kind == "Checked")
    found = verify_entries(changed(rig.log.entries, checked, digest=1))
    assert found.difference is not None
    assert (found.difference.what, found.difference.place) == ("digest", f"r1/{checked}")


def test_a_second_end_is_found() -> None:
    rig, _, _ = two_decisions()
    released = next(e for e in rig.log.entries if e.kind == "Released")
    entries = [*rig.log.entries, released]
    found = verify_entries(entries)
    assert found.difference is not None
    assert (found.difference.what, found.difference.place) == ("ending", f"r1/{len(entries)}")


def test_a_start_must_close_what_was_in_flight() -> None:
    rig, _, second = two_decisions()
    started = next(e for e in rig.log.entries if e.kind == "Started")
    configured = next(e for e in rig.log.entries if e.kind == "Configured")
    found = verify_entries([*rig.log.entries, started, configured])
    assert found.difference is not None
    assert found.difference.what == "ending"
    assert f"r1/{second}" in found.difference.text


def test_orphans_must_be_all_there_are() -> None:
    rig = Rig().live("a", "b")
    rig.go()
    left = rig.go()
    rig.restart()
    entries = rig.log.entries
    assert entries[-1].kind == "Orphaned"
    found = verify_entries(changed(entries, len(entries), dispatches=[left.number - 1]))
    assert found.difference is not None
    assert f"r1/{left.number} without an end" in found.difference.text


def test_damage_does_not_hide_a_difference_before_it() -> None:
    rig, first, second = two_decisions()
    entries = changed(rig.log.entries, first, weight_m=5)
    store = store_of(entries)
    assert isinstance(store, MemoryStore)
    bad = store._records[second - 1]
    store._records[second - 1] = attrs.evolve(bad, chain=bytes(16))
    found = verify(Source(store))
    assert found.difference is not None
    assert found.difference.place == f"r1/{first}"


def test_two_routers_in_one_log_are_judged_apart() -> None:
    rig = busy_day(40)
    store = store_of(rig.log.entries)
    store.append("router/r2", busy_day(40, seed=2).log.entries, 0)
    found = verify(Source(store))
    assert found.difference is None
    assert found.restarts == 2


def test_unknown_kinds_are_refused_or_passed_over() -> None:
    rig, _, _ = two_decisions()
    entries = [*rig.log.entries, attrs.evolve(rig.log.entries[0], kind="Teleported")]
    with pytest.raises(CannotRead, match="newer trioroute"):
        verify(Source(store_of(entries)))
    lenient = Source(store_of(entries), lenient=True)
    assert verify(lenient).difference is None
    assert lenient.skipped == {"Teleported": 1}
