"""The SQLite writer: format, transactions, trouble with the file, views."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
import trio
from sqlite_utils import Database

from eventlog import (
    Appended,
    Head,
    LogDamaged,
    LogMissing,
    NewerLog,
    StoreFailed,
    VersionConflict,
    sqlite_segment,
)
from eventlog import schema as schema_module
from eventlog import sqlite_migrations as migrate
from eventlog.chain import verify_chain
from eventlog.conformance import some_entries
from eventlog.journal import Journal
from eventlog.record import same_entries
from eventlog.schema import APPLICATION_ID, FORMAT, PAGE_BYTES
from eventlog.segments import HEAD, READ, READ_STREAM
from eventlog.sqlite import SqliteReader, SqliteStore
from tests.eventlog.early import make_early_segment


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A closed log of ten rows."""
    store = SqliteStore.open(tmp_path / "log", sync="normal")
    store.append("a", some_entries(10), 0)
    store.close()
    return tmp_path / "log"


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_the_table_is_what_people_were_promised(log: Path) -> None:
    connection = sqlite3.connect(log / "log-1.sqlite")
    columns = [(row[1], row[2]) for row in connection.execute("PRAGMA table_info(events)")]
    assert columns == [
        ("seq", "INTEGER"),
        ("stream", "TEXT"),
        ("version", "INTEGER"),
        ("kind", "TEXT"),
        ("schema", "INTEGER"),
        ("at_ms", "INTEGER"),
        ("seen", "INTEGER"),
        ("body", "TEXT"),
        ("chain", "BLOB"),
    ]
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    numbers = connection.execute("SELECT json_extract(body, '$.n') FROM events").fetchall()
    assert numbers == [(n,) for n in range(10)]
    with pytest.raises(sqlite3.IntegrityError, match="cannot store REAL"):
        connection.execute("UPDATE events SET at_ms = 1.5")
    connection.close()


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [(READ, (0, 1)), (READ_STREAM, (1_500, "a", 1)), (HEAD, ())],
)
@pytest.mark.parametrize("early", [False, True])
def test_no_query_costs_more_in_a_longer_log(
    tmp_path: Path, sql: str, parameters: tuple[object], early: bool
) -> None:
    path = tmp_path / "log" / "log-1.sqlite"
    if early:
        make_early_segment(path)
    store = SqliteStore.open(tmp_path / "log", sync="normal")
    store.append("a", some_entries(3_000), 0)
    store.close()
    connection = sqlite3.connect(path)
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, 1)
    assert connection.execute(sql, parameters).fetchall()
    connection.close()
    assert steps < 100, "virtual machine steps of a look-up; a walk takes thousands"


def test_a_newer_log_is_refused_before_anything_is_written(log: Path) -> None:
    file = log / "log-1.sqlite"
    change(file, f"PRAGMA user_version = {FORMAT + 6}")
    before = {path.name: path.read_bytes() for path in log.iterdir() if path.suffix == ".sqlite"}
    (log / "owner.lock").unlink()
    for opening in (SqliteStore.open, SqliteReader.open):
        with pytest.raises(NewerLog, match=f"log format {FORMAT + 6}.*up to {FORMAT}") as newer:
            opening(log)
        assert (newer.value.path, newer.value.found, newer.value.known) == (file, 7, 1)
    after = {path.name: path.read_bytes() for path in log.iterdir() if path.suffix == ".sqlite"}
    assert after == before
    assert not (log / "owner.lock").exists()


def test_another_database_is_refused_untouched(tmp_path: Path) -> None:
    file = tmp_path / "log-1.sqlite"
    change(file, "CREATE TABLE customers (id INTEGER)")
    before = file.read_bytes()
    with pytest.raises(LogDamaged, match="not an event log"):
        SqliteStore.open(tmp_path)
    with pytest.raises(LogDamaged, match="not an event log"):
        SqliteReader.open(file)
    assert file.read_bytes() == before


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    for opening in (
        lambda: SqliteStore.open(tmp_path / "no", create=False),
        lambda: SqliteReader.open(tmp_path / "no"),
        lambda: SqliteReader.open(tmp_path),
    ):
        with pytest.raises(LogMissing, match=str(tmp_path)):
            opening()
    assert not (tmp_path / "no").exists()


def test_a_log_whose_making_was_cut_off_is_made_whole(tmp_path: Path) -> None:
    (tmp_path / "log-1.sqlite").touch()
    reader = SqliteReader.open(tmp_path)
    assert reader.read() == []
    store = SqliteStore.open(tmp_path)
    store.append("a", some_entries(1), 0)
    assert len(reader.read()) == 1
    reader.close()
    store.close()


def test_what_is_not_committed_is_seen_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore.open(tmp_path / "log", sync="normal")
    store.append("a", some_entries(1), 0)
    inside, go_on = threading.Event(), threading.Event()
    original = sqlite_segment._insert_sql

    def slow(rows: int) -> str:
        if rows == 6:  # the last 6 of 70 rows: 64 are inserted, the transaction is open
            inside.set()
            go_on.wait(10)
        return original(rows)

    monkeypatch.setattr(sqlite_segment, "_insert_sql", slow)
    thread = threading.Thread(target=store.append, args=("a", some_entries(70, 1), 1))
    thread.start()
    assert inside.wait(10)
    assert [r.seq for r in store.read()] == [1]
    assert (store.head().seq, store.stream_version("a")) == (1, 1)
    go_on.set()
    thread.join()
    assert store.head().seq == 71
    store.close()


async def test_a_full_disk_stalls_the_journal_and_room_lets_it_go_on(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log", sync="normal")
    assert store._segment is not None
    connection = store._segment._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    journal = Journal(store, "a")
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        last = journal.offer(some_entries(2_000)) + 1_999
        with trio.fail_after(20):
            while journal.failing is None:  # noqa: ASYNC110  # a property, not an event
                await trio.sleep(0.005)
            assert "full" in str(journal.failing)
            assert store.head().seq == 0
            connection.execute("PRAGMA max_page_count = 1000000")
            await journal.durable(last)
        journal.close()
    assert same_entries(store.read(0, 5_000), some_entries(2_000))
    store.close()


def test_a_file_locked_by_another_writer_is_a_failure_to_repeat(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventlog.sqlite_segment.BUSY_TIMEOUT_S", 0.01)
    store = SqliteStore.open(log)
    other = sqlite3.connect(log / "log-1.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreFailed, match="locked"):
        store.append("a", some_entries(1, 10), 10)
    other.execute("ROLLBACK")
    other.close()
    assert store.append("a", some_entries(1, 10), 10) == Appended(11, 11)
    store.close()


@pytest.mark.parametrize("count", [1, 200])
@pytest.mark.parametrize("appended_before", [False, True])
def test_a_row_put_in_by_another_writer_is_a_conflict(
    log: Path, appended_before: bool, count: int
) -> None:
    store = SqliteStore.open(log)
    last = 10
    if appended_before:
        last = store.append("a", some_entries(1, 10), 10).last
    change(
        log / "log-1.sqlite",
        "INSERT INTO events SELECT seq + 1, stream, version + 1, kind, schema, 5, seen, body, chain"
        f" FROM events WHERE seq = {last}",
    )
    for _ in range(2):
        with pytest.raises(VersionConflict, match=f"at version {last + 1}, expected {last}"):
            store.append("a", some_entries(count, last), last)
    assert store.head().seq == last + 1
    store.close()


def test_a_row_put_into_another_stream_does_not_disturb_the_order(log: Path) -> None:
    store = SqliteStore.open(log)
    store.append("a", some_entries(1, 10), 10)
    change(
        log / "log-1.sqlite",
        "INSERT INTO events SELECT 12, 'b', 1, kind, schema, 5, seen, body, chain"
        " FROM events WHERE seq = 11",
    )
    assert store.append("a", some_entries(2, 11), 11) == Appended(13, 14)
    assert [r.seq for r in store.read()] == list(range(1, 15))
    store.close()


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 1_000])
def test_appends_of_any_size_are_stored_whole(tmp_path: Path, count: int) -> None:
    store = SqliteStore.open(tmp_path / "log", sync="normal")
    for n in range(0, 3 * count, count):
        appended = store.append("a", some_entries(count, n), n)
        assert appended == Appended(n + 1, n + count)
    assert same_entries(store.read(0, 5_000), some_entries(3 * count))
    assert verify_chain(store.read(0, 5_000), Head()) == store.head()
    store.close()


def test_a_garbled_file_is_called_damaged(log: Path) -> None:
    file = log / "log-1.sqlite"
    data = bytearray(file.read_bytes())
    data[:100] = b"\xa5" * 100
    file.write_bytes(data)
    for opening in (SqliteReader.open, SqliteStore.open):
        with pytest.raises(LogDamaged, match=r"log-1\.sqlite: damaged \(file: .*restore it"):
            opening(log)


def test_a_torn_file_is_called_damaged(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log", sync="normal")
    store.append("a", some_entries(2_000), 0)
    store.close()
    file = tmp_path / "log" / "log-1.sqlite"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(LogDamaged, match="malformed"):
        SqliteStore.open(tmp_path / "log")
    with (
        closing(SqliteReader.open(tmp_path / "log")) as reader,
        pytest.raises(LogDamaged, match="malformed"),
    ):
        reader.head()


def test_a_page_garbled_under_a_running_writer_is_called_damaged(log: Path) -> None:
    file = log / "log-1.sqlite"
    with closing(SqliteStore.open(log)) as store:
        store.append("a", some_entries(2_000, 10), 10)
    store = SqliteStore.open(log)
    reader = SqliteReader.open(log)
    data = bytearray(file.read_bytes())
    data[PAGE_BYTES:] = b"\xa5" * (len(data) - PAGE_BYTES)
    file.write_bytes(data)
    with pytest.raises(LogDamaged, match="malformed"):
        reader.read()
    with pytest.raises(LogDamaged, match="malformed"):
        store.append("a", some_entries(1, 2_010), 2_010)
    reader.close()
    store.close()


def test_views_are_made_replaced_and_left_alone(log: Path) -> None:
    def rows(view: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(log / "log-1.sqlite")
        found = connection.execute(f"SELECT * FROM {view} LIMIT 2").fetchall()
        connection.close()
        return found

    views = {"numbers": "SELECT seq, json_extract(body, '$.n') AS n FROM events"}
    SqliteStore.open(log, views=views).close()
    assert rows("numbers") == [(1, 0), (2, 1)]
    before = (log / "log-1.sqlite").read_bytes()
    SqliteStore.open(log, views=views).close()
    assert (log / "log-1.sqlite").read_bytes() == before, "an unchanged view is not written again"
    SqliteStore.open(log, views={"numbers": "SELECT seq + 100 FROM events"}).close()
    assert rows("numbers") == [(101,), (102,)]
    with pytest.raises(ValueError, match="view 'events': the log has a table of that name"):
        SqliteStore.open(log, views={"other": "SELECT 1", "events": "SELECT 1"})
    with pytest.raises(ValueError, match="view 'broken': no such column"):
        SqliteStore.open(log, views={"numbers": "SELECT 1", "broken": "SELECT x FROM events"})
    assert rows("numbers") == [(101,), (102,)], "a refused set changes no view"


def test_an_older_format_is_migrated_when_it_is_opened_for_writing(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [m.name for m in migrate.log_migrations._migrations]
    assert names == ["0001_events"], "a migration once released keeps its name and place"
    monkeypatch.setattr(schema_module, "FORMAT", 2)
    monkeypatch.setattr(
        migrate.log_migrations,
        "_migrations",
        list(migrate.log_migrations._migrations),
    )

    @migrate.log_migrations(name="0002_test")
    def _second(db: Database) -> None:
        db.execute("CREATE INDEX by_kind ON events (kind)")
        db.execute("PRAGMA user_version = 2")

    store = SqliteStore.open(log)
    assert same_entries(store.read(), some_entries(10))
    store.close()
    connection = sqlite3.connect(log / "log-1.sqlite")
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    connection.close()
    monkeypatch.undo()
    with pytest.raises(NewerLog):
        SqliteStore.open(log)


def test_a_file_that_was_removed_is_noticed_and_written_again_when_it_is_back(log: Path) -> None:
    store = SqliteStore.open(log, sync="normal")
    try:
        store.append("a", some_entries(1), 10)
        file = log / "log-1.sqlite"
        kept = file.rename(log / "kept")
        with pytest.raises(StoreFailed, match="gone"):
            store.append("a", some_entries(1), 11)
        file.write_bytes(b"")
        with pytest.raises(StoreFailed, match="replaced"):
            store.append("a", some_entries(1), 11)
        kept.rename(file)
        assert store.append("a", some_entries(1), 11).first == 12
    finally:
        store.close()
