"""Rows of a stream are found without an index, in few steps, whoever else writes into the log."""

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eventlog.conformance import some_entries
from eventlog.errors import LogDamaged
from eventlog.reading import SqliteReader
from eventlog.sqlite import SegmentLimits, SqliteStore
from eventlog.streams import FIRST, FROM, LAST, UNTIL, Spot, StreamSearch
from tests.eventlog.early import make_early_segment

CHANCE = random.Random(11)

ORDERS: dict[str, Sequence[str]] = {
    "one stream": "a" * 3_000,
    "one after the other": "a" * 1_000 + "b" * 1_500 + "c" * 500,
    "each in turn": "ab" * 1_500,
    "a few of many": "".join(CHANCE.choices("abcdefg", k=3_000)),
    "there and back": "a" * 700 + "b" * 900 + "a" * 700 + "c" + "a" * 699,
    "one row among others": "a" * 1_234 + "b" + "a" * 1_765,
}


def spots_of(order: Sequence[str]) -> list[Spot]:
    """Where each row of a log is whose rows are of these streams."""
    versions: dict[str, int] = {}
    spots = []
    for seq, stream in enumerate(order, 1):
        versions[stream] = versions.get(stream, 0) + 1
        spots.append(Spot(seq, stream, versions[stream]))
    return spots


class Rows:
    """A table of bare rows, and how many were asked for."""

    def __init__(self, spots: Sequence[Spot]) -> None:
        self.base = sqlite3.connect(":memory:")
        self.base.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, stream, version)")
        rows = [(spot.seq, spot.stream, spot.version) for spot in spots]
        self.base.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
        self.asked = 0

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        self.asked += 1
        return self.base.execute(sql, parameters).fetchall()


@pytest.mark.parametrize("order", ORDERS)
def test_each_row_is_found_as_a_walk_finds_it(order: str) -> None:
    spots = spots_of(ORDERS[order])
    rows = Rows(spots)
    search = StreamSearch(rows.query, "log")
    for stream in (*sorted(set(ORDERS[order])), "nobody"):
        own = [spot for spot in spots if spot.stream == stream]
        assert search.last_of(stream) == (own[-1] if own else None)
        for after in (0, 1, 2, len(own) // 3, len(own) // 2, max(0, len(own) - 1)):
            expected = own[after] if after < len(own) else None
            assert search.next_of(stream, after) == expected, (stream, after)
        assert search.next_of(stream, len(own)) is None
    rows.base.close()


@pytest.mark.parametrize("order", ORDERS)
def test_rows_that_were_there_before_and_holes_do_not_lead_astray(order: str) -> None:
    """A segment begins in the midst of its streams, and rows may be missing from it."""
    missing = set(CHANCE.sample(range(400, 2_900), 60))
    spots = [s for s in spots_of(ORDERS[order])[300:] if s.seq not in missing]
    rows = Rows(spots)
    search = StreamSearch(rows.query, "log")
    for stream in sorted({spot.stream for spot in spots}):
        own = [spot for spot in spots if spot.stream == stream]
        assert search.last_of(stream) == own[-1]
        for spot in CHANCE.sample(own, min(len(own), 50)):
            assert search.next_of(stream, spot.version - 1) == spot
    rows.base.close()


def test_one_writing_stream_is_never_walked() -> None:
    rows = Rows(spots_of("a" * 200_000))
    search = StreamSearch(rows.query, "log")
    assert search.next_of("a", 123_456) == Spot(123_457, "a", 123_457)
    assert search.last_of("a") == Spot(200_000, "a", 200_000)
    assert search.next_of("nobody", 0) is search.last_of("nobody") is None
    assert rows.asked <= 4 * 3
    rows.base.close()


def test_a_stream_that_ended_long_ago_is_found_by_halving() -> None:
    rows = Rows(spots_of("a" * 90_000 + "b" * 110_000))
    search = StreamSearch(rows.query, "log")
    assert search.last_of("a") == Spot(90_000, "a", 90_000)
    assert search.next_of("b", 0) == Spot(90_001, "b", 1)
    assert rows.asked < 60
    rows.base.close()


def test_rows_out_of_place_are_damage_and_no_endless_search() -> None:
    """As SQLite gives them where a page leads to earlier rows."""
    first, last = Spot(1, "a", 1), Spot(5_000, "b", 9)
    for left, right in (((3_000, "a", 5), (2_501, "a", 7)), ((2_500, "a", 5), (2_400, "a", 7))):
        told = {FIRST: [row_of(first)], LAST: [row_of(last)], UNTIL: [left], FROM: [right]}
        search = StreamSearch(lambda sql, *_, told=told: told[sql], "log-1.sqlite")
        with pytest.raises(LogDamaged, match="out of place"):
            search.last_of("a")
    told = {FIRST: [row_of(first)], LAST: [row_of(last)], UNTIL: [], FROM: []}
    with pytest.raises(LogDamaged, match="not found"):
        StreamSearch(lambda sql, *_: told[sql], "log-1.sqlite").next_of("b", 3)


def row_of(spot: Spot) -> tuple[Any, ...]:
    return spot.seq, spot.stream, spot.version


def test_a_log_of_early_and_later_segments_is_one_log(tmp_path: Path) -> None:
    make_early_segment(tmp_path / "log-1.sqlite")
    limits = SegmentLimits(size_bytes=1)
    with closing(SqliteStore.open(tmp_path, sync="normal")) as store:
        store.append("a", some_entries(2_000), 0)
        store.append("b", some_entries(500), 0)
    with closing(SqliteStore.open(tmp_path, sync="normal", limits=limits)) as store:
        store.append("b", some_entries(300, 500), 500)
        store.append("a", some_entries(300, 2_000), 2_000)
        assert (store.stream_version("a"), store.stream_version("b")) == (2_300, 800)
    with SqliteReader.open(tmp_path) as reader:
        rows = reader.read(0, 9_999)
        for stream in ("a", "b"):
            own = [row for row in rows if row.stream == stream]
            assert reader.read_stream(stream, 0, 9_999) == own
            assert reader.read_stream(stream, 450, 100) == own[450:550]
    indexed = []
    for path in sorted(tmp_path.glob("log-*.sqlite"), key=lambda path: len(path.name)):
        with closing(sqlite3.connect(path)) as base:
            sizes = base.execute("PRAGMA page_size").fetchone()[0]
            found = base.execute("SELECT 1 FROM sqlite_schema WHERE name LIKE '%autoindex_events%'")
            indexed.append((sizes, bool(found.fetchall())))
    assert indexed == [(4096, True), (8192, False), (8192, False)]
