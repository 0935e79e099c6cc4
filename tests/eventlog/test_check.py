"""Checking a log goes on after damage: it names what is bad, with its place, and what holds."""

import sqlite3
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from eventlog import Head, LogMissing
from eventlog.check import check_log, holds_at
from eventlog.conformance import some_entries
from eventlog.pages import page_bytes_of
from eventlog.schema import EARLY_PAGE_BYTES
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteStore
from tests.eventlog.early import early_segment

ROWS = 1_000


@pytest.fixture(params=["made today", "made early"])
def log(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rows 1 to 1000 in several segments; 401 to 600 are in the one that begins at 401."""
    if request.param == "made early":
        monkeypatch.setattr("eventlog.sqlite.make_segment", early_segment)
    store = SqliteStore.open(tmp_path / "log", sync="normal", limits=SegmentLimits(size_bytes=1))
    for n in range(0, ROWS, 200):
        store.append("a", some_entries(200, n), n)
    store.close()
    assert [file.first for file in list_segments(tmp_path / "log")] == [1, 201, 401, 601, 801]
    return tmp_path / "log"


def change(log: Path, statement: str, first: int = 401) -> Path:
    path = log / f"log-{first}.sqlite"
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()
    return path


def test_a_whole_log_holds_to_its_head(log: Path) -> None:
    seen: list[int] = []
    found = check_log(log, on_row=lambda row: seen.append(row.seq))
    assert (found.rows, found.bad, found.holds) == (ROWS, [], [(1, ROWS)])
    assert (found.begins_at, found.anchored, found.head.seq) == (1, True, ROWS)
    assert seen == list(range(1, ROWS + 1))
    with pytest.raises(LogMissing):
        check_log(log / "nothing")


def test_a_changed_row_is_named_with_its_file_and_byte(log: Path) -> None:
    path = change(log, "UPDATE events SET body = '{\"n\":0}' WHERE seq = 500")
    found = check_log(log)
    (bad,) = found.bad
    assert (bad.first, bad.last, bad.file, bad.part) == (500, 500, str(path), str(path))
    assert bad.reason.startswith("chain")
    connection = sqlite3.connect(path)
    chain = connection.execute("SELECT chain FROM events WHERE seq = 500").fetchone()[0]
    connection.close()
    assert bad.offset is not None
    assert path.read_bytes()[bad.offset : bad.offset + 16] == chain
    assert found.holds == [(1, 499), (501, ROWS)]


CHANGES: dict[str, tuple[str, list[tuple[int, int, str]], list[tuple[int, int]]]] = {
    "removed": (
        "DELETE FROM events WHERE seq BETWEEN 450 AND 455",
        [(450, 455, "gap")],
        [(1, 449), (456, ROWS)],
    ),
    "reordered": (
        "UPDATE events SET seq = CASE seq WHEN 450 THEN -1 ELSE seq END WHERE seq = 450",
        [(450, 450, "gap")],
        [(1, 449), (451, ROWS)],
    ),
    "two changed": (
        "UPDATE events SET at_ms = 5 WHERE seq IN (402, 599)",
        [(402, 402, "chain"), (599, 599, "chain")],
        [(1, 401), (403, 598), (600, ROWS)],
    ),
    "its chain changed": (
        "UPDATE events SET chain = zeroblob(16) WHERE seq = 500",
        [(500, 500, "chain"), (501, 501, "chain")],
        [(1, 499), (502, ROWS)],
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_lost_and_what_still_holds(log: Path, what: str) -> None:
    statement, bad, holds = CHANGES[what]
    change(log, statement)
    found = check_log(log)
    assert [(b.first, b.last, b.reason.split(":")[0]) for b in found.bad] == bad
    assert found.holds == holds


def test_a_swap_of_two_rows_is_found_at_both(log: Path) -> None:
    path = log / "log-401.sqlite"
    connection = sqlite3.connect(path)
    with connection:
        for old, new in ((500, -1), (501, 500), (-1, 501)):
            connection.execute("UPDATE events SET seq = ? WHERE seq = ?", (new, old))
    connection.close()
    found = check_log(log)
    assert found.bad[0].first == 500
    assert found.holds[0] == (1, 499)
    assert found.holds[-1][1] == ROWS


def pages_of(path: Path) -> int:
    return path.stat().st_size // page_bytes_of(path)


def garble(path: Path, page: int) -> None:
    size = page_bytes_of(path)
    data = bytearray(path.read_bytes())
    data[page * size : (page + 1) * size] = bytes(size)
    path.write_bytes(data)


def test_a_zeroed_page_costs_its_rows_and_no_others(log: Path) -> None:
    path = log / "log-401.sqlite"
    garble(path, pages_of(path) - 1)
    found = check_log(log)
    assert found.bad
    lost = sum(bad.last - bad.first + 1 for bad in found.bad if bad.reason.startswith("file"))
    held = sum(last - first + 1 for first, last in found.holds)
    assert all(401 <= bad.first <= bad.last <= 600 for bad in found.bad)
    assert held + lost >= ROWS - 2
    assert held >= 800
    assert found.holds[0][0] == 1
    assert found.holds[-1][1] == ROWS


def test_whatever_page_is_zeroed_all_rows_but_its_own_hold(log: Path) -> None:
    path = log / "log-401.sqlite"
    whole = path.read_bytes()
    has_index = page_bytes_of(path) == EARLY_PAGE_BYTES
    costly = 0
    for page in range(4, pages_of(path)):
        garble(path, page)
        found = check_log(log)
        assert found.bad, "an index's page too"
        torn = [bad for bad in found.bad if "index" not in bad.reason]
        costly += bool(torn)
        lost = sum(bad.last - bad.first + 1 for bad in torn)
        assert lost <= page_bytes_of(path) // 50
        assert sum(last - first + 1 for first, last in found.holds) == ROWS - lost
        assert (found.begins_at, found.anchored) == (1, True)
        path.write_bytes(whole)
    assert costly >= 2
    assert (costly < pages_of(path) - 4) == has_index


def test_damage_at_the_very_beginning_is_lost_and_not_retired(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path, sync="normal")
    store.append("a", some_entries(ROWS), 0)
    store.close()
    path = tmp_path / "log-1.sqlite"
    connection = sqlite3.connect(path)
    chain = connection.execute("SELECT chain FROM events WHERE seq = 1").fetchone()[0]
    connection.close()
    garble(path, path.read_bytes().index(chain) // page_bytes_of(path))
    found = check_log(tmp_path)
    assert [bad.first for bad in found.bad] == [1]
    assert found.begins_at == 1
    assert found.holds == [(found.bad[0].last + 1, ROWS)]


@pytest.mark.parametrize("damage", ["header", "gone"])
def test_a_whole_segment_that_is_lost_leaves_the_others(log: Path, damage: str) -> None:
    path = log / "log-401.sqlite"
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"\xa5" * 4096)
    found = check_log(log)
    assert found.bad[0].first == 401
    assert found.bad[0].last == 600
    assert found.holds == [(1, 400), (601, ROWS)]


def test_a_retired_beginning_is_on_trust_unless_its_head_is_known(log: Path) -> None:
    chains: dict[int, bytes] = {}
    check_log(log, on_row=lambda row: chains.update({row.seq: row.chain}))
    for first in (1, 201):
        (log / f"log-{first}.sqlite").unlink()
    trusted = check_log(log)
    assert (trusted.begins_at, trusted.anchored, trusted.bad) == (401, False, [])
    known = check_log(log, start=Head(400, chains[400]))
    assert (known.anchored, known.bad, known.holds) == (True, [], [(401, ROWS)])
    wrong = check_log(log, start=Head(400, chains[399]))
    assert wrong.bad[0].first == 401


def test_a_log_that_was_rewritten_does_not_hold_an_earlier_head(log: Path) -> None:
    head = check_log(log).head
    assert holds_at(log, head)
    for path in log.glob("log-*"):
        path.unlink()
    store = SqliteStore.open(log, sync="normal")
    store.append("a", [*some_entries(ROWS - 1), *some_entries(1, 7)], 0)
    store.close()
    assert check_log(log).bad == []
    assert not holds_at(log, head)
    assert not holds_at(log, Head(ROWS + 1, head.chain))


def memory_of(call: Callable[[], object]) -> int:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    peaks = []
    for rows in (4_000, 24_000):
        store = SqliteStore.open(tmp_path / str(rows), sync="normal")
        for n in range(0, rows, 4_000):
            store.append("a", some_entries(4_000, n), n)
        store.close()
        peaks.append(memory_of(lambda rows=rows: check_log(tmp_path / str(rows))))  # type: ignore[misc]  # a default binds the loop's value
    assert peaks[1] < 1.2 * peaks[0] + 100_000
