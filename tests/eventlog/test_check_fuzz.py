"""Whatever is flipped in a segment, the check ends, is never content with a row that was changed,
and names rows of that segment alone."""

import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from eventlog.check import Checked, check_log
from eventlog.conformance import some_entries
from eventlog.errors import LogError
from eventlog.pages import header_fault, page_bytes_of
from eventlog.sqlite import SegmentLimits, SqliteStore
from tests.eventlog.early import make_early_segment

FLIPS = int(os.environ.get("EVENTLOG_FLIPS", "150"))
ROWS, A_SEGMENT = 900, 300
HEADER = 100


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments of 300 rows, with a view and two levels of pages; the first was made early."""
    log = tmp_path_factory.mktemp("whole") / "log"
    views = {"numbers": "SELECT seq, body ->> 'n' AS n FROM events"}
    limits = SegmentLimits(size_bytes=1)
    make_early_segment(log / "log-1.sqlite")
    with closing(SqliteStore.open(log, sync="normal", views=views, limits=limits)) as store:
        for n in range(0, ROWS, A_SEGMENT):
            store.append("a", some_entries(A_SEGMENT, n), n)
    return log


@pytest.fixture
def log(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "log"))


def rows_of(path: Path) -> list[tuple[object, ...]]:
    """The rows that SQLite finds; none if it finds damage."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        select = "SELECT *, CAST(body AS BLOB) FROM events NOT INDEXED ORDER BY seq"
        with suppress(sqlite3.Error, UnicodeDecodeError):
            return base.execute(select).fetchall()
        return []


def damages(data: bytes, seed: int) -> Iterator[tuple[str, bytes]]:
    chance = random.Random(seed)
    page = int.from_bytes(data[16:18])
    places = {"header": HEADER, "schema": page, "anywhere": len(data)}
    for number in range(FLIPS):
        where = chance.choice([*places, "anywhere", "head of a page"])
        if where == "head of a page":
            at = chance.randrange(len(data) // page) * page + chance.randrange(16)
        else:
            at = chance.randrange(places[where])
        damaged = bytearray(data)
        how = chance.choice(["bit", "bit", "byte", "run", "zeros", "cut"])
        if how == "bit":
            damaged[at] ^= 1 << chance.randrange(8)
        elif how == "byte":
            damaged[at] = chance.randrange(256)
        elif how == "run":
            end = min(len(data), at + chance.randrange(1, 6000))
            damaged[at:end] = chance.randbytes(end - at)
        elif how == "zeros":
            damaged[at // page * page : at // page * page + page] = bytes(page)
        else:
            del damaged[at:]
        yield f"{number}: {how} at {at}", bytes(damaged)


@pytest.mark.parametrize("first", [1, 301, 601])
def test_no_damage_is_passed_over_and_none_ends_the_check(log: Path, first: int) -> None:
    path = log / f"log-{first}.sqlite"
    truth, whole = rows_of(path), path.read_bytes()
    for what, damaged in damages(whole, seed=first):
        path.write_bytes(damaged)
        found = check_log(log)
        assert found.bad or rows_of(path) == truth, what
        for bad in found.bad:
            assert first <= bad.first <= bad.last, (what, bad)
            if first != 601:  # the end of the newest is known from itself alone
                assert bad.last < first + A_SEGMENT, (what, bad)
            assert bad.file == str(path), (what, bad)
            assert bad.offset is None or bad.offset <= len(damaged), (what, bad)
        in_others = sum(last - begin + 1 for begin, last in others(found, first))
        assert in_others == ROWS - A_SEGMENT, (what, found.holds)


def others(found: Checked, first: int) -> Iterator[tuple[int, int]]:
    """What holds in the segments that were not touched."""
    inside = range(first, first + A_SEGMENT)
    for begin, last in found.holds:
        if begin < inside.start:
            yield begin, min(last, inside.start - 1)
        if last >= inside.stop:
            yield max(begin, inside.stop), last


def test_a_log_of_one_damaged_file_is_checked_or_refused_in_words(log: Path) -> None:
    for first in (301, 601):
        (log / f"log-{first}.sqlite").unlink()
    path = log / "log-1.sqlite"
    truth, whole = rows_of(path), path.read_bytes()
    for what, damaged in damages(whole, seed=7):
        path.write_bytes(damaged)
        refused, found = "", None
        try:
            found = check_log(log)
        except LogError as error:
            refused = str(error)
        if found is None:
            assert str(path) in refused, what
        elif rows_of(path) != truth:
            # An empty file is a log without rows: only a head kept elsewhere tells more.
            assert found.bad or not damaged, what


HEADS = {
    0: "the name of the format",
    16: "the page size",
    21: "the payload fractions",
    45: "the schema format",
    60: "the log format",
    68: "the application id",
}


@pytest.mark.parametrize("first", [1, 301])
@pytest.mark.parametrize("at", HEADS)
def test_a_damaged_header_is_named_by_its_byte_and_what_lies_behind_it_is_counted(
    log: Path, at: int, first: int
) -> None:
    path = log / f"log-{first}.sqlite"
    data = bytearray(path.read_bytes())
    data[at + 2 if at == 45 else at] ^= 0x81
    path.write_bytes(data)
    fault = header_fault(path)
    assert fault is not None
    assert fault[0] <= at
    assert HEADS[at] in fault[1]
    (bad,) = check_log(log).bad
    assert (bad.first, bad.last, bad.part) == (first, first + 299, str(path))
    assert bad.offset == fault[0]
    assert HEADS[at] in bad.reason
    assert "300 of these rows lie in whole pages" in bad.reason


def root_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as base:
        number: int = base.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'events'"
        ).fetchone()[0]
    return (number - 1) * page_bytes_of(path)


@pytest.mark.parametrize("first", [1, 301, 601])
def test_a_damaged_root_is_named_and_the_rows_behind_it_are_counted(log: Path, first: int) -> None:
    path = log / f"log-{first}.sqlite"
    at = root_of(path)
    data = bytearray(path.read_bytes())
    data[at] = 0
    path.write_bytes(data)
    (bad,) = check_log(log).bad
    assert (bad.first, bad.last, bad.offset) == (first, first + A_SEGMENT - 1, at)
    assert "the first page of its table is damaged" in bad.reason
    assert "300 of these rows lie in whole pages" in bad.reason


def test_a_page_that_leads_back_to_earlier_rows_ends_the_reading_and_is_named(log: Path) -> None:
    path = log / "log-301.sqlite"
    at = root_of(path)
    data = bytearray(path.read_bytes())
    first_cell = at + int.from_bytes(data[at + 12 : at + 14])
    data[at + 8 : at + 12] = data[first_cell : first_cell + 4]  # the last child is the first one
    path.write_bytes(data)
    found = check_log(log)
    assert found.bad
    assert found.bad[0].offset == at
    assert found.holds[0][0] == 1
    assert found.holds[-1] == (601, ROWS)
