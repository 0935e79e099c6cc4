"""A log judged in stretches, each by itself, is judged as one that is walked from its first row."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import attrs
import pytest

from eventlog.snapshots import Snapshot, Snapshots
from eventlog.sqlite import SqliteStore
from tests.replay.cut_logs import (
    EVERY,
    decisions,
    fold_of,
    in_stretches,
    keep_snapshots,
    log_of,
    rewrite,
    write_log,
)
from tests.replay.rig import STREAM, busy_day, changed
from tests.replay.test_today import _queues_did_not_matter, old_day
from tests.rig import Rig
from trioroute import events as e
from trioroute.events.codec import KINDS, encode
from trioroute.projections import apply
from trioroute.projections.freeze import freeze
from trioroute.replay import stretches
from trioroute.snapshot import FOLD, dump


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "STRETCH_ROWS", EVERY // 2)


@pytest.fixture(scope="module")
def day() -> Rig:
    return busy_day(1000)


@pytest.fixture(scope="module")
def day_log(tmp_path_factory: pytest.TempPathFactory, day: Rig) -> Path:
    return log_of(tmp_path_factory.mktemp("day"), day.log.entries)


@pytest.fixture
def log(day_log: Path, tmp_path: Path) -> Path:
    """The day's log with its snapshots, for this test to spoil."""
    return Path(shutil.copytree(day_log, tmp_path / "log"))


def test_a_true_log_with_a_restart_is_joined_of_its_stretches(
    log: Path, day: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(list(log.glob("log-*.sqlite"))) > 2
    found = in_stretches(log, monkeypatch)
    data = found.found[0]
    assert data["verified"]
    assert data["restarts"] == 1
    assert data["events"] == len(day.log.entries)
    assert (found.again, found.false) == ([], [])
    assert found.cut > 10


def test_it_may_be_cut_after_any_row(
    tmp_path: Path, day: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(tmp_path, busy_day(120).log.entries, every=1)
    for rows in (1, 2, 7):
        monkeypatch.setattr(stretches, "STRETCH_ROWS", rows)
        found = in_stretches(log, monkeypatch)
        assert (found.found[0]["verified"], found.again, found.false) == (True, [], [])
        assert found.cut > 40 / rows


@pytest.mark.parametrize("place", [0.02, 0.5, 0.99])
def test_the_first_decision_that_is_not_true_is_named_wherever_it_is(
    tmp_path: Path, day: Rig, place: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = decisions(day.log.entries)
    victim = numbers[int(len(numbers) * place)]
    entries = changed(day.log.entries, victim, draw=1, weight_m=7)
    entries = changed(entries, numbers[-1], weight_m=8)
    found = in_stretches(log_of(tmp_path, entries), monkeypatch)
    assert found.found[0]["difference"]["seq"] == victim
    assert len(found.again) <= 1


def test_random_changes_of_random_rows_are_told_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, dice, told = busy_day(150).log.entries, random.Random(4), set()
    monkeypatch.setattr(stretches, "STRETCH_ROWS", 20)
    for number in range(60):
        at = dice.randrange(len(entries))
        spoiled = list(entries)
        if number % 3 == 0:
            spoiled[at : at + 1] = []
        elif number % 3 == 1:
            spoiled[at:at] = [entries[dice.randrange(len(entries))]]
        else:
            other = dice.randrange(len(entries))
            spoiled[at], spoiled[other] = spoiled[other], spoiled[at]
        log = write_log(tmp_path / f"log-{number}", spoiled)
        keep_snapshots(log, 25)
        found = in_stretches(log, monkeypatch).found
        told.add(found[0]["difference"]["what"] if found[0]["difference"] else "")
    assert {"not deterministic", "ending"} <= told


def test_a_snapshot_of_another_state_is_not_trusted_and_named(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite(log, 3 * EVERY, checked_at=999)
    found = in_stretches(log, monkeypatch)
    assert found.false == [3 * EVERY]
    assert found.again == [2 * EVERY, 3 * EVERY]
    assert found.found[0]["verified"]


def test_many_that_are_false_end_the_cutting(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (2, 4, 5, 6, 8):
        rewrite(log, place * EVERY, checked_at=999)
    found = in_stretches(log, monkeypatch)
    assert found.false == [2 * EVERY, 4 * EVERY, 5 * EVERY]


def test_a_snapshot_of_another_log_is_not_trusted(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold = fold_of(log, 2 * EVERY)
    head = attrs.evolve(fold.head, chain=bytes(16))
    Snapshots(log).write(Snapshot(head, FOLD, dump(fold.states)))
    found = in_stretches(log, monkeypatch)
    assert (found.false, found.found[0]["verified"]) == ([2 * EVERY], True)


def test_snapshots_that_are_missing_damaged_or_of_another_release_are_passed_over(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = in_stretches(log, monkeypatch).cut
    kept = Snapshots(log)
    kept.path(2 * EVERY).unlink()
    kept.path(4 * EVERY).write_bytes(kept.path(4 * EVERY).read_bytes()[:-1])
    fold = fold_of(log, 6 * EVERY)
    kept.write(Snapshot(fold.head, "another", dump(fold.states)))
    found = in_stretches(log, monkeypatch)
    assert (found.cut, found.again, found.false) == (whole - 3, [], [])


def spoil(log: Path, seq: int, sql: str) -> None:
    files = {int(path.stem.removeprefix("log-")): path for path in log.glob("log-*.sqlite")}
    with closing(sqlite3.connect(files[max(n for n in files if n <= seq)])) as base:
        base.execute(sql, (seq,))
        base.commit()


@pytest.mark.parametrize("seq", [5, 2 * EVERY, 2 * EVERY + 1, 5 * EVERY + 70, 2200])
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE events SET body = replace(body, '1', '2') WHERE seq = ?",
        "UPDATE events SET body = '{' WHERE seq = ?",
        "UPDATE events SET chain = zeroblob(16) WHERE seq = ?",
        "UPDATE events SET version = version + 7000 WHERE seq = ?",
        "DELETE FROM events WHERE seq = ?",
    ],
)
def test_a_damaged_or_missing_row_is_named_alike(
    log: Path, seq: int, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(log, seq, sql)
    data = in_stretches(log, monkeypatch).found[0]
    assert (data["difference"]["what"], data["difference"]["seq"]) == ("damaged", seq)
    assert data["events"] == seq - 1


def test_pages_and_segments_that_are_gone_are_told_alike(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = sorted(log.glob("log-*.sqlite"), key=lambda path: int(path.stem[4:]))
    last = segments[-1].read_bytes()
    for at in range(8192, len(last) - 4096, 3 * 4096):
        segments[-1].write_bytes(last[:at] + bytes(4096) + last[at + 4096 :])
        in_stretches(log, monkeypatch)
    segments[1].unlink()
    assert in_stretches(log, monkeypatch).found[0]["difference"]["what"] == "damaged"


def test_a_log_whose_beginning_was_retired_begins_at_its_snapshot(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = sorted(log.glob("log-*.sqlite"), key=lambda path: int(path.stem[4:]))
    first = int(segments[1].stem[4:])
    fold = fold_of(log, first - 1)
    Snapshots(log).write(Snapshot(fold.head, FOLD, dump(fold.states)))
    segments[0].unlink()
    found = in_stretches(log, monkeypatch)
    assert (found.found[0]["begins_at"], found.again) == (first, [])
    assert found.cut > 5
    Snapshots(log).path(first - 1).unlink()
    blind = in_stretches(log, monkeypatch)
    assert blind.found[0]["begins_at"] > first
    assert blind.cut == 0


def test_a_gap_that_restates_the_state_is_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = busy_day(300)
    state, entries = rig.state, rig.log.entries
    event = e.Gap(lost=3, from_ms=state.at_ms, to_ms=state.at_ms, state=freeze(state))
    gap = attrs.evolve(entries[-1], kind="Gap", schema=KINDS["Gap"].schema, body=encode(event))
    entries.append(gap)
    apply(state, len(entries), gap.at_ms, event)
    for number in range(200):
        rig.pass_s(1).finish(rig.go(f"s{number % 7}", "p", tokens=500))
    found = in_stretches(log_of(tmp_path, entries), monkeypatch)
    assert (found.found[0]["verified"], found.found[0]["gaps"], found.again) == (True, 1, [])


def test_a_late_pin_event_of_the_last_decision_before_a_cut_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig().live("a", "b")
    flown = rig.go("s", tokens=1000)
    bound = next(entry for entry in rig.log.entries if entry.kind == "Bound")
    for _ in range(400):
        rig.pass_s(1).scrape(a=(1, 0), b=(1, 0))
    late = [*rig.log.entries, bound, *busy_day(1).log.entries[-1:]]
    log = log_of(tmp_path, late)
    found = in_stretches(log, monkeypatch)
    assert found.found[0]["difference"]["place"] == f"r1/{flown.number}"
    assert found.cut > 2
    in_stretches(log, monkeypatch, today=True)


def test_two_routers_and_unknown_kinds_are_counted_alike(
    tmp_path: Path, day: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, other = day.log.entries, busy_day(700, seed=2).log.entries
    log = write_log(tmp_path / "two", entries, other)
    keep_snapshots(log)
    found = in_stretches(log, monkeypatch)
    assert found.found[0]["restarts"] == 2
    assert found.again == []
    in_stretches(log, monkeypatch, today=True)
    newer = [*entries, *[attrs.evolve(entries[0], kind="Teleported")] * 3]
    log = write_log(tmp_path / "newer", entries)
    keep_snapshots(log)
    with closing(SqliteStore.open(log, sync="normal")) as store:
        store.append(STREAM, newer[len(entries) :], len(entries))
    assert "newer trioroute" in in_stretches(log, monkeypatch).found
    lenient = in_stretches(log, monkeypatch, lenient=True)
    assert lenient.found[1] == {"Teleported": 3}
    assert lenient.again == []


def test_what_today_decides_otherwise_is_counted_alike(
    tmp_path: Path, day: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = old_day("_no_wait", _queues_did_not_matter, 1000)
    log = log_of(tmp_path, rig.log.entries)
    found = in_stretches(log, monkeypatch, today=True)
    today = found.found[0]["today"]
    assert today["differ"] > 10
    assert len(today["causes"]) > 1
    assert found.again == []
    assert in_stretches(log, monkeypatch).found[0]["difference"]["what"] == "rule changed"
