"""Whoever changes a log is found: by its chain, or by a head that was kept out of their reach."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from eventlog import Entry, Head
from eventlog.chain import chain_entries
from eventlog.check import check_log, holds_at
from eventlog.conformance import some_entries
from eventlog.reading import SqliteReader
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteStore

ROWS = 500


@pytest.fixture
def log(tmp_path: Path) -> Path:
    limits = SegmentLimits(size_bytes=1)
    with closing(SqliteStore.open(tmp_path / "log", sync="normal", limits=limits)) as store:
        for n in range(0, ROWS, 100):
            store.append("a", some_entries(100, n), n)
    assert [file.first for file in list_segments(tmp_path / "log")] == [1, 101, 201, 301, 401]
    return tmp_path / "log"


def change(log: Path, first: int, *statements: str) -> None:
    with closing(sqlite3.connect(log / f"log-{first}.sqlite")) as base, base:
        for statement in statements:
            base.execute(statement)


def swap(log: Path, one: int, other: int) -> None:
    a, b, aside = log / f"log-{one}.sqlite", log / f"log-{other}.sqlite", log / "aside"
    a.rename(aside)
    b.rename(a)
    aside.rename(b)


def swap_and_number_anew(log: Path, one: int, other: int) -> None:
    """Two segments change places, and their rows get the numbers of their new place."""
    swap(log, one, other)
    for first, by in ((one, one - other), (other, other - one)):
        step = f"seq = seq + {by}, version = version + {by}"
        change(log, first, f"UPDATE events SET {step}")


Tamper = Callable[[Path], object]
FOUND_BY_THE_CHAIN: dict[str, tuple[Tamper, int]] = {
    "changed": (lambda log: change(log, 201, "UPDATE events SET at_ms = 1 WHERE seq = 250"), 250),
    "removed": (lambda log: change(log, 201, "DELETE FROM events WHERE seq = 250"), 250),
    "removed at an end": (lambda log: change(log, 201, "DELETE FROM events WHERE seq > 290"), 291),
    "removed and closed up": (
        lambda log: change(
            log,
            201,
            "DELETE FROM events WHERE seq = 250",
            "UPDATE events SET seq = -seq, version = -version WHERE seq > 250",
            "UPDATE events SET seq = -1 - seq, version = -1 - version WHERE seq < 0",
        ),
        250,
    ),
    "inserted": (
        lambda log: change(
            log,
            401,
            "INSERT INTO events SELECT 501, stream, 501, kind, schema, at_ms, seen, body, chain"
            " FROM events WHERE seq = 500",
        ),
        501,
    ),
    "reordered": (
        lambda log: change(
            log,
            201,
            "UPDATE events SET seq = -1 WHERE seq = 250",
            "UPDATE events SET seq = 250 WHERE seq = 251",
            "UPDATE events SET seq = 251 WHERE seq = -1",
        ),
        250,
    ),
    "a segment dropped": (lambda log: (log / "log-201.sqlite").unlink(), 201),
    "two segments swapped": (lambda log: swap(log, 201, 301), 201),
    "two segments swapped and numbered anew": (
        lambda log: swap_and_number_anew(log, 201, 301),
        201,
    ),
    "a segment copied over another": (
        lambda log: (log / "log-301.sqlite").write_bytes((log / "log-201.sqlite").read_bytes()),
        301,
    ),
}


@pytest.mark.parametrize("how", FOUND_BY_THE_CHAIN)
def test_a_change_is_found_by_the_chain_and_the_first_bad_row_is_named(log: Path, how: str) -> None:
    tamper, first_bad = FOUND_BY_THE_CHAIN[how]
    tamper(log)
    found = check_log(log)
    assert found.bad
    assert min(bad.first for bad in found.bad) == first_bad
    assert found.holds[0] == (1, first_bad - 1)


def rewrite_from(log: Path, seq: int) -> None:
    """One row is changed, and the chain of all rows after it is made anew: it holds."""
    with SqliteReader.open(log) as reader:
        rows = reader.read(0, ROWS)
    head = Head(seq - 1, rows[seq - 2].chain)
    entries = [Entry(row.kind, row.schema, row.at_ms, row.seen, row.body) for row in rows]
    entries[seq - 1] = Entry("other", 1, 0, 0, b"{}")
    chains = chain_entries(head, "a", seq - 1, entries[seq - 1 :])
    for file in list_segments(log):
        with closing(sqlite3.connect(file.path)) as base, base:
            base.execute(
                "UPDATE events SET kind='other', schema=1, at_ms=0, seen=0, body='{}'"
                " WHERE seq = ?",
                (seq,),
            )
            for number, chain in enumerate(chains, seq):
                base.execute("UPDATE events SET chain = ? WHERE seq = ?", (chain, number))


FOUND_BY_A_HEAD: dict[str, Tamper] = {
    "the end cut off": lambda log: change(log, 401, "DELETE FROM events WHERE seq > 450"),
    "the newest segment dropped": lambda log: (log / "log-401.sqlite").unlink(),
    "all rewritten from a row on": lambda log: rewrite_from(log, 250),
}


@pytest.mark.parametrize("how", FOUND_BY_A_HEAD)
def test_a_change_that_keeps_the_chain_is_found_only_by_a_head_kept_elsewhere(
    log: Path, how: str
) -> None:
    with SqliteReader.open(log) as reader:
        head, early = reader.head(), reader.read(199, 1)[0]
    FOUND_BY_A_HEAD[how](log)
    assert check_log(log).bad == []
    assert not holds_at(log, head)
    assert holds_at(log, Head(early.seq, early.chain)), (
        "a head before the change proves what it can"
    )
