"""Snapshots: used only if whole, of the same fold and of the same log."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventlog import Head, MemoryStore
from eventlog.conformance import some_entries
from eventlog.snapshots import BadSnapshot, Snapshot, Snapshots
from eventlog.sqlite import SegmentLimits, SqliteStore

FOLD = "f1"


def log_of(count: int) -> MemoryStore:
    store = MemoryStore()
    store.append("a", some_entries(count), 0)
    return store


def head_of(store: MemoryStore, seq: int) -> Head:
    return Head(seq, store.read(seq - 1, 1)[0].chain)


def kept(directory: Path, store: MemoryStore, *seqs: int) -> Snapshots:
    snapshots = Snapshots(directory)
    for seq in seqs:
        payload = b"line\nafter %d" % seq
        snapshots.write(Snapshot(head_of(store, seq), FOLD, payload))
    return snapshots


def newest(
    snapshots: Snapshots, store: MemoryStore, until: int | None = None, fold: str = FOLD
) -> tuple[int | None, list[str]]:
    told: list[str] = []
    found = snapshots.newest(store, fold, bytes, until=until, warn=told.append)
    if found is None:
        return None, told
    assert found[1] == b"line\nafter %d" % found[0].seq
    return found[0].seq, told


def test_the_newest_one_up_to_a_row_is_found(tmp_path: Path) -> None:
    store = log_of(9)
    snapshots = kept(tmp_path, store, 2, 9, 5)
    assert snapshots.seqs() == [9, 5, 2]
    assert newest(snapshots, store) == (9, [])
    assert [newest(snapshots, store, until)[0] for until in (1, 2, 4, 5, 8)] == [None, 2, 2, 5, 5]
    assert (tmp_path / "snapshots").stat().st_mode & 0o777 == 0o700
    assert newest(Snapshots(tmp_path / "nowhere"), store) == (None, [])


@pytest.mark.parametrize("at", [0, 30, 120, -1])
def test_a_damaged_one_is_passed_over_with_a_warning(tmp_path: Path, at: int) -> None:
    store = log_of(9)
    snapshots = kept(tmp_path, store, 5, 9)
    data = bytearray(snapshots.path(9).read_bytes())
    data[at] ^= 1
    snapshots.path(9).write_bytes(data)
    seq, (told,) = newest(snapshots, store)
    assert seq == 5
    assert str(snapshots.path(9)) in told
    assert "damaged" in told


@pytest.mark.parametrize("size", [0, 1, 60, -1])
def test_a_torn_one_is_passed_over(tmp_path: Path, size: int) -> None:
    store = log_of(9)
    snapshots = kept(tmp_path, store, 5, 9)
    snapshots.path(9).write_bytes(snapshots.path(9).read_bytes()[:size])
    seq, told = newest(snapshots, store)
    assert (seq, len(told)) == (5, 1)


def test_one_of_another_fold_is_passed_over(tmp_path: Path) -> None:
    store = log_of(9)
    seq, told = newest(kept(tmp_path, store, 5), store, fold="f2")
    assert seq is None
    assert "another shape" in told[0]


def test_one_of_another_log_or_of_rows_that_were_lost_is_passed_over(tmp_path: Path) -> None:
    store = log_of(9)
    snapshots = kept(tmp_path, store, 4, 9)
    seq, told = newest(snapshots, log_of(6))
    assert seq == 4
    assert "ends before row 9" in told[0]
    other = MemoryStore()
    other.append("a", some_entries(9, 100), 0)
    seq, told = newest(snapshots, other)
    assert seq is None
    assert len(told) == 2
    assert "belongs to another log" in told[0]
    assert newest(snapshots, MemoryStore())[0] is None


def test_one_under_the_name_of_another_row_is_passed_over(tmp_path: Path) -> None:
    """It would be the state after more rows than were asked for."""
    store = log_of(9)
    snapshots = kept(tmp_path, store, 2, 9)
    snapshots.path(9).rename(snapshots.path(5))
    seq, (warning,) = newest(snapshots, store, until=5)
    assert seq == 2
    assert "it was taken after 9" in warning


def test_a_draft_that_gets_its_name_meanwhile_was_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots = kept(tmp_path, log_of(9), 5, 9)
    draft = snapshots.directory / "after-7.snapshot.1.new"
    monkeypatch.setattr(Path, "glob", lambda *_: iter([draft]))
    assert snapshots.keep_only({9}) == 1


def test_what_the_reader_of_the_payload_refuses_is_passed_over(tmp_path: Path) -> None:
    store = log_of(9)
    snapshots = kept(tmp_path, store, 4, 9)

    def parse(payload: bytes) -> bytes:
        if b"9" in payload:
            raise BadSnapshot("not that one")
        return payload

    told: list[str] = []
    found = snapshots.newest(store, FOLD, parse, warn=told.append)
    assert found is not None
    assert found[0].seq == 4
    assert "not that one" in told[0]


def test_one_at_the_border_of_a_retired_beginning_is_checked_by_the_next_row(
    tmp_path: Path,
) -> None:
    store = SqliteStore.open(tmp_path, sync="normal", limits=SegmentLimits(size_bytes=1))
    for n in range(6):
        store.append("a", some_entries(1, n), n)
    rows = store.read()
    snapshots = Snapshots(tmp_path)
    snapshots.write(Snapshot(Head(3, rows[2].chain), FOLD, b""))
    snapshots.write(Snapshot(Head(2, rows[1].chain), FOLD, b""))
    for n in (1, 2, 3):
        (tmp_path / f"log-{n}.sqlite").unlink()
    told: list[str] = []
    found = snapshots.newest(store, FOLD, bytes, warn=told.append)
    assert found == (Head(3, rows[2].chain), b"")
    assert snapshots.newest(store, FOLD, bytes, until=2, warn=told.append) is None
    assert "does not go on after it" in told[0]
    snapshots.write(Snapshot(Head(3, rows[1].chain), FOLD, b""))
    assert snapshots.newest(store, FOLD, bytes, until=3) is None, "a falsified chain"
    store.close()


def test_others_are_removed_and_drafts_that_a_crash_left(tmp_path: Path) -> None:
    store = log_of(9)
    snapshots = kept(tmp_path, store, 1, 2, 3, 9)
    old = snapshots.directory / "after-7.snapshot.99.new"
    fresh = snapshots.directory / "after-8.snapshot.98.new"
    for path in (old, fresh, snapshots.directory / "notes.txt"):
        path.touch()
    os.utime(old, (1, 1))
    assert snapshots.keep_only([2, 9, 100]) == 3
    assert sorted(path.name for path in snapshots.directory.iterdir()) == [
        "after-2.snapshot",
        "after-8.snapshot.98.new",
        "after-9.snapshot",
        "notes.txt",
    ]


def test_a_writer_that_dies_leaves_the_one_before(tmp_path: Path) -> None:
    store = log_of(9)
    kept(tmp_path, store, 5)
    code = (
        "import os, signal, sys; from pathlib import Path; from eventlog import Head\n"
        "from eventlog.snapshots import Snapshot, Snapshots\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "Snapshots(Path(sys.argv[1])).write(Snapshot(Head(5, bytes(16)), 'f1', b'new'))"
    )
    died = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert died.returncode == -9
    assert newest(Snapshots(tmp_path), store) == (5, [])
