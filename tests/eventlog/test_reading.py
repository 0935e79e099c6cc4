"""Reading logs: live ones, of several segments, with holes, on read-only media."""

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eventlog import Entry, Head, LogDamaged, Record, StoreClosed
from eventlog.bare import Bare, bare, even, even_pages, joined, read_even
from eventlog.chain import verify_chain
from eventlog.conformance import some_entries
from eventlog.reading import MAX_OPEN
from eventlog.record import same_entries
from eventlog.segments import list_segments
from eventlog.sqlite import SqliteReader, SqliteStore

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore.open(tmp_path / "log", sync="normal")
    store.append("a", some_entries(10), 0)
    yield store
    store.close()


def split(directory: Path, total: int, *firsts: int) -> None:
    """Cut a closed log of one segment into segments that begin at ``firsts``."""
    whole = directory / "log-1.sqlite"
    edges = [*firsts, total + 1]
    for first, following in zip(firsts, edges[1:], strict=True):
        part = directory / f"log-{first}.sqlite"
        if part != whole:
            shutil.copy(whole, part)
            delete(part, f"seq < {first} OR seq >= {following}")
    delete(whole, f"seq >= {edges[1] if firsts[0] == 1 else firsts[0]}")


def delete(path: Path, where: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(f"DELETE FROM events WHERE {where}")
    connection.close()


def test_a_live_log_is_read_without_disturbing_its_writer(
    store: SqliteStore, tmp_path: Path
) -> None:
    reader = SqliteReader.open(tmp_path / "log")
    assert same_entries(reader.read(), some_entries(10))
    store.append("a", some_entries(5, 10), 10)
    assert [r.seq for r in reader.read(10)] == [11, 12, 13, 14, 15]
    assert reader.head() == store.head()
    assert reader.stream_version("a") == 15
    one_file = SqliteReader.open(tmp_path / "log" / "log-1.sqlite")
    assert one_file.read() == reader.read()
    one_file.close()
    # A reader between two pages holds no snapshot: the whole write-ahead log can be folded back.
    connection = sqlite3.connect(tmp_path / "log" / "log-1.sqlite")
    busy, log_pages, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    connection.close()
    assert (busy, log_pages) == (0, 0)
    reader.close()
    with pytest.raises(StoreClosed):
        reader.read()


def test_a_reader_outlives_the_writer_and_sees_the_next_one(tmp_path: Path) -> None:
    first = SqliteStore.open(tmp_path / "log", sync="normal")
    first.append("a", some_entries(2), 0)
    reader = SqliteReader.open(tmp_path / "log")
    assert len(reader.read()) == 2
    first.close()
    assert len(reader.read()) == 2
    second = SqliteStore.open(tmp_path / "log", sync="normal")
    second.append("a", some_entries(2, 2), 2)
    assert len(reader.read()) == 4
    second.close()
    reader.close()


def test_the_write_ahead_log_stays_bounded_while_readers_come_and_go(
    store: SqliteStore, tmp_path: Path
) -> None:
    reader = SqliteReader.open(tmp_path / "log")
    seen = 0
    for n in range(10, 12_010, 300):
        store.append("a", [Entry("k", 1, 0, 0, b"1" * 1_000)] * 300, n)
        seen += len(reader.read(seen, 200))
    wal = tmp_path / "log" / "log-1.sqlite-wal"
    assert (tmp_path / "log" / "log-1.sqlite").stat().st_size > 4 << 20
    assert wal.stat().st_size < 8 << 20
    reader.close()


def test_segments_are_read_as_one_log(store: SqliteStore, tmp_path: Path) -> None:
    store.append("b", some_entries(6), 0)
    whole, head = store.read(), store.head()
    store.close()
    split(tmp_path / "log", 16, 1, 4, 5, 9, 12, 14, 15)
    assert len(list_segments(tmp_path / "log")) > MAX_OPEN
    reader = SqliteReader.open(tmp_path / "log")
    for limit in (1, 3, 7, 100):
        pages: list[Record] = []
        while page := reader.read(pages[-1].seq if pages else 0, limit):
            pages += page
        assert pages == whole
        assert len(reader._open) <= MAX_OPEN
    for after in range(17):
        assert reader.read(after, 4) == whole[after : after + 4]
    assert reader.read_stream("a", 2, 5) == whole[2:7]
    assert reader.read_stream("b", 3) == whole[13:]
    assert (reader.head(), reader.stream_version("a"), reader.stream_version("b")) == (head, 10, 6)
    reader.close()
    again = SqliteStore.open(tmp_path / "log")
    assert again.append("a", some_entries(3), 0).already, "a repeat is found in older segments"
    assert again.append("a", some_entries(1, 10), 10).first == 17
    assert verify_chain(again.read(), Head()) == again.head()
    assert (tmp_path / "log" / "log-17.sqlite").exists() is False
    again.close()


def test_a_new_empty_segment_continues_the_one_before(store: SqliteStore, tmp_path: Path) -> None:
    store.close()
    split(tmp_path / "log", 10, 1, 11)
    again = SqliteStore.open(tmp_path / "log")
    assert again.head().seq == 10
    assert again.append("a", some_entries(1, 10), 10).first == 11
    assert verify_chain(again.read(), Head()) == again.head()
    again.close()
    last = SqliteReader.open(tmp_path / "log" / "log-11.sqlite")
    assert [r.seq for r in last.read()] == [11]
    last.close()


def test_a_retired_beginning_is_no_hole(store: SqliteStore, tmp_path: Path) -> None:
    store.close()
    split(tmp_path / "log", 10, 1, 4, 8)
    (tmp_path / "log" / "log-1.sqlite").unlink()
    reader = SqliteReader.open(tmp_path / "log")
    assert [r.seq for r in reader.read()] == [4, 5, 6, 7, 8, 9, 10]
    assert [r.seq for r in reader.read(2)] == [4, 5, 6, 7, 8, 9, 10]
    assert [r.version for r in reader.read_stream("a")] == [4, 5, 6, 7, 8, 9, 10]
    reader.close()


@pytest.mark.parametrize("missing", ["a row", "a segment", "the first row"])
def test_rows_before_a_hole_are_given_then_it_is_named(
    store: SqliteStore, tmp_path: Path, missing: str
) -> None:
    store.close()
    split(tmp_path / "log", 10, 1, 4, 8)
    expected, hole = [1, 2, 3], 4
    if missing == "a segment":
        (tmp_path / "log" / "log-4.sqlite").unlink()
    elif missing == "a row":
        delete(tmp_path / "log" / "log-4.sqlite", "seq = 6")
        expected, hole = [1, 2, 3, 4, 5], 6
    else:
        delete(tmp_path / "log" / "log-1.sqlite", "seq = 1")
        expected, hole = [], 1
    reader = SqliteReader.open(tmp_path / "log")
    if expected:
        assert [r.seq for r in reader.read()] == expected
    with pytest.raises(LogDamaged, match=f"gap: {hole} to") as damage:
        reader.read(hole - 1)
    assert damage.value.seq == hole
    if missing == "a row":
        assert [r.version for r in reader.read_stream("a")] == expected
        with pytest.raises(LogDamaged, match="version 6 of 'a' is missing"):
            reader.read_stream("a", 5)
    reader.close()


def test_a_log_on_read_only_media_is_read(store: SqliteStore, tmp_path: Path) -> None:
    """Read by a user who may not write there: the archive has no -wal and gets no -shm file."""
    store.close()
    code = (
        "import os, sys; from pathlib import Path; from eventlog.sqlite import SqliteReader\n"
        "directory = Path(sys.argv[1])\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "print([r.seq for r in SqliteReader.open(directory).read()], os.listdir(directory))"
    )
    with tempfile.TemporaryDirectory() as archive:  # tmp_path is hidden from other users
        file = Path(archive) / "log-1.sqlite"
        shutil.copy(tmp_path / "log" / "log-1.sqlite", file)
        file.chmod(0o444)
        Path(archive).chmod(0o555)
        child = subprocess.run(
            [sys.executable, "-c", code, archive],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        Path(archive).chmod(0o755)
    assert child.stdout == f"{list(range(1, 11))} ['log-1.sqlite']\n", child.stderr


def test_a_retired_version_is_no_damage_but_a_lost_one_after_it_is(
    store: SqliteStore, tmp_path: Path
) -> None:
    store.close()
    split(tmp_path / "log", 10, 1, 4, 8)
    (tmp_path / "log" / "log-1.sqlite").unlink()
    delete(tmp_path / "log" / "log-8.sqlite", "seq = 9")
    with SqliteReader.open(tmp_path / "log") as reader:
        assert [r.version for r in reader.read_stream("a", 1)] == [4, 5, 6, 7, 8]
        with pytest.raises(LogDamaged, match="version 9 of 'a' is missing"):
            reader.read_stream("a", 8)


def test_a_reader_of_a_log_at_rest_sees_writers_that_come_and_those_that_came_and_went(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    SqliteStore.open(log, sync="normal").close()
    with SqliteReader.open(log) as reader:
        assert reader.read() == []
        for begun in range(0, 90, 30):
            with closing(SqliteStore.open(log, sync="normal")) as store:
                store.append("a", some_entries(15, begun), begun)
                assert len(reader.read()) == begun + 15, "one that is there"
                store.append("a", some_entries(15, begun + 15), begun + 15)
            reader.let_go(list_segments(log)[-1])
            assert len(reader.read()) == begun + 30, "one that went: opened at rest"
        with closing(SqliteStore.open(log, sync="normal")) as store:
            store.append("a", some_entries(2000, 90), 90)
        assert same_entries(reader.read(0, 5000), some_entries(2090))


def folded(reader: SqliteReader, limit: int) -> tuple[list[Bare], str]:
    """All rows as whoever folds them gets them, and the damage that ended it."""
    rows: list[Bare] = []
    try:
        while pages := even_pages(reader, len(rows), limit):
            for page in pages:
                assert page.seq == len(rows) + 1
                rows += [bare(page.record(at)) for at in range(len(page.rows))]
    except LogDamaged as damage:
        return rows, str(damage)
    return rows, ""


def plainly(reader: SqliteReader, limit: int) -> tuple[list[Bare], str]:
    """The same from whole rows."""
    rows: list[Record] = []
    told = ""
    try:
        while page := reader.read(len(rows), limit):
            rows += page
    except LogDamaged as damage:
        told = str(damage)
    return list(map(bare, rows)), told


@pytest.mark.parametrize("limit", [1, 3, 7, 10, 1000])
@pytest.mark.parametrize("hole", ["", "seq = 9", "seq > 14", "seq BETWEEN 5 AND 7", "seq = 12"])
def test_rows_to_fold_are_the_rows_that_are_read(
    store: SqliteStore, tmp_path: Path, limit: int, hole: str
) -> None:
    store.append("b", some_entries(4), 0)
    store.append("a", some_entries(9, 10), 10)
    store.close()
    split(tmp_path / "log", 23, 1, 8, 15)
    for path in (tmp_path / "log").glob("log-*.sqlite"):
        if hole:
            delete(path, hole)
    with SqliteReader.open(tmp_path / "log") as reader:
        assert folded(reader, limit) == plainly(reader, limit)


def evenly(reader: SqliteReader, limit: int, end: int) -> list[Bare]:
    """All rows as ``read_even`` gives them, or ``read_bare`` where it gives none."""
    rows: list[Bare] = []
    while len(rows) < end:
        size = min(limit, end - len(rows))
        page = read_even(reader, len(rows), size)
        found = reader.read_bare(len(rows), size) if page is None else []
        pages = list(even(found or map(bare, reader.read(len(rows), size))))
        for one in pages if page is None else [page]:
            rows += [
                (one.seq + at, one.stream, one.version + at, *row)
                for at, row in enumerate(one.rows)
            ]
    return rows


@pytest.mark.parametrize("limit", [1, 3, 10, 1000])
def test_rows_of_one_stream_are_read_as_rows_of_it(
    store: SqliteStore, tmp_path: Path, limit: int
) -> None:
    store.append("b", some_entries(4), 0)
    store.append("a", some_entries(6), 10)
    directory = tmp_path / "log"
    store.close()
    split(directory, 20, 1, 8)
    with SqliteReader.open(directory) as reader:
        whole = list(map(bare, reader.read(0, 1000)))
        assert len(whole) == 20
        assert evenly(reader, limit, 20) == whole
        pages = list(joined(even(whole)))
        assert [(page.stream, page.seq, page.version, len(page.rows)) for page in pages] == [
            ("a", 1, 1, 10),
            ("b", 11, 1, 4),
            ("a", 15, 11, 6),
        ]
        assert read_even(reader, 10, 4) is not None
        assert read_even(reader, 9, 2) is None  # of two streams
        for after, limit, found in ((6, 2, 1), (18, 3, 2)):  # a segment ends there, and the log
            page = read_even(reader, after, limit)
            assert page is not None
            assert len(page.rows) == found


def test_no_page_that_damage_wrote_gives_a_row_of_another_type(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    with closing(SqliteStore.open(directory, sync="normal")) as store:
        store.append("a", some_entries(300), 0)
    path = directory / "log-1.sqlite"
    whole = path.read_bytes()
    size = int.from_bytes(whole[16:18], "big") // 4  # SQLite refuses a page that is zero as a whole
    lacking = 0
    for begin in range(4 * size, len(whole), size // 4):
        path.write_bytes(whole[:begin] + bytes(size) + whole[begin + size :])
        with closing(SqliteReader.open(directory)) as reader:
            rows = 0
            for after in range(0, 150, 10):
                bare_rows = reader.read_bare(after, 150)
                page = read_even(reader, after, 150)
                rows += len(bare_rows)
                inner = [(r[3], r[4], r[5], r[6]) for r in bare_rows] + list(
                    page.rows if page else ()
                )
                assert all(tuple(map(type, row)) == (str, int, int, bytes) for row in inner)
                assert all(type(version) is int for _, _, version, *_ in bare_rows)
        lacking += rows < 15 * 150
    assert lacking > 0
