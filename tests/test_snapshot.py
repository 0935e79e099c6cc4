"""Snapshots of a real log: what is recovered from them is what the whole log tells."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from eventlog import Head
from eventlog.segments import list_segments
from eventlog.snapshots import Snapshots
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from tests.replay.rig import STREAM, busy_day
from tests.rig import Flown, Rig
from trioroute import snapshot
from trioroute.events import InForce, UnreadableEvent
from trioroute.policy import commands as c
from trioroute.recovery import recover
from trioroute.replay.explain import tell
from trioroute.replay.find import last_decisions
from trioroute.replay.moment import tell_moment
from trioroute.replay.read import CannotRead, NotFound, Source
from trioroute.replay.verify import verify
from trioroute.router import Router
from trioroute.snapshot import make_snapshots


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments, without snapshots."""
    directory = tmp_path_factory.mktemp("made") / "log"
    entries = busy_day(900).log.entries
    store = SqliteStore.open(directory, sync="normal", limits=SegmentLimits(size_bytes=100_000))
    for n in range(0, len(entries), 50):
        store.append(STREAM, entries[n : n + 50], n)
    store.close()
    assert len(list_segments(directory)) >= 5
    return directory


@pytest.fixture
def log(made_once: Path, tmp_path: Path) -> Path:
    shutil.copytree(made_once, tmp_path / "log")
    return tmp_path / "log"


@pytest.fixture
def reader(log: Path) -> Iterator[SqliteReader]:
    with SqliteReader.open(log) as reader:
        yield reader


def borders(log: Path) -> list[int]:
    return [file.first - 1 for file in list_segments(log) if file.first > 1]


def retire(log: Path, segments: int) -> None:
    for file in list_segments(log)[:segments]:
        file.path.unlink()


def test_there_is_one_at_each_border_and_one_at_the_end(log: Path, reader: SqliteReader) -> None:
    made = make_snapshots(log)
    end = reader.head().seq
    assert made.seqs == (*borders(log), end)
    assert made.folded == end
    assert sorted(Snapshots(log).seqs()) == list(made.seqs)
    assert make_snapshots(log).seqs == ()


def test_what_is_recovered_is_what_the_whole_log_tells(log: Path, reader: SqliteReader) -> None:
    whole = recover(reader, STREAM)
    assert (whole.snapshot, whole.folded) == (0, whole.state.position)
    make_snapshots(log)
    for seq in [*Snapshots(log).seqs()]:
        found = recover(reader, STREAM, Snapshots(log))
        assert found.state == whole.state
        assert found.snapshot == seq
        assert found.folded == reader.head().seq - seq
        Snapshots(log).path(seq).unlink()
    assert recover(reader, STREAM, Snapshots(log)).snapshot == 0


def test_only_what_is_new_is_folded_and_older_ones_are_pruned(log: Path) -> None:
    with closing(SqliteStore.open(log, sync="normal")) as store:
        for round_ in range(4):
            make_snapshots(log)
            head, version = store.head().seq, store.stream_version(STREAM)
            store.append(STREAM, busy_day(3).log.entries[-3:], version)
            made = make_snapshots(log)
            assert (made.folded, made.seqs) == (3, (head + 3,)), round_
        assert sorted(Snapshots(log).seqs()) == [*borders(log), head, head + 3]


def test_a_border_whose_snapshot_was_lost_gets_it_again(log: Path) -> None:
    make_snapshots(log)
    lost = borders(log)[2]
    Snapshots(log).path(lost).unlink()
    made = make_snapshots(log)
    assert lost in made.seqs
    assert set(borders(log)) <= set(Snapshots(log).seqs())


def test_after_an_upgrade_of_the_fold_all_are_made_anew(
    log: Path, reader: SqliteReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_snapshots(log)
    monkeypatch.setattr(snapshot, "FOLD", "another")
    monkeypatch.setattr("trioroute.recovery.FOLD", "another")
    told: list[str] = []
    assert recover(reader, STREAM, Snapshots(log), told.append).snapshot == 0
    (said,) = told
    many = f"not used, {len(borders(log)) + 1} in all: they were made by a release"
    assert said.startswith(f"snapshots in {log / 'snapshots'} are {many}")
    assert make_snapshots(log).seqs == (*borders(log), reader.head().seq)
    told.clear()
    assert recover(reader, STREAM, Snapshots(log), told.append).folded == 0
    assert told == []


def test_a_log_whose_beginning_was_retired_goes_on_from_the_border(
    log: Path, reader: SqliteReader
) -> None:
    whole = recover(reader, STREAM)
    make_snapshots(log)
    retire(log, 3)
    for seq in Snapshots(log).seqs():
        if seq > borders(log)[0]:
            Snapshots(log).path(seq).unlink()
    found = recover(reader, STREAM, Snapshots(log))
    assert (found.snapshot, found.state, found.lost) == (borders(log)[0], whole.state, 0)
    found_by_replay = Source(reader, snapshots=Snapshots(log))
    proved = verify(found_by_replay)
    assert proved.difference is None
    assert proved.begins_at == borders(log)[0] + 1
    assert proved.head == reader.head()
    assert make_snapshots(log).seqs == (*borders(log)[1:], reader.head().seq)


def test_a_retired_beginning_without_a_snapshot_is_lost_and_says_so(
    log: Path, reader: SqliteReader
) -> None:
    retire(log, 3)
    found = recover(reader, STREAM, Snapshots(log))
    assert found.lost == list_segments(log)[0].first - 1
    assert found.state.position == reader.stream_version(STREAM)
    with pytest.raises(CannotRead, match="no snapshot of this release tells of it"):
        verify(Source(reader, snapshots=Snapshots(log)))
    assert make_snapshots(log).seqs == (), "what is not exact is not kept"


def test_a_retired_decision_is_answered_with_what_is_kept(log: Path, reader: SqliteReader) -> None:
    retire(log, 3)
    first, last = list_segments(log)[0].first, reader.head().seq
    for number in (1, 10, first - 1):
        with pytest.raises(NotFound) as none:
            tell(Source(reader), STREAM, number)
        kept = f"the log holds r1/{first} to r1/{last}; older events were retired; the nearest"
        assert str(none.value).startswith(kept)


def restated(log: Path, more: int) -> int:
    """What a router does that knows only the kept rows: the row of its Gap."""
    with closing(SqliteStore.open(log, sync="normal")) as store:
        found = recover(store, STREAM)
        begun, rig = found.state.position, Rig()
        rig.log.entries = [rig.log.entries[0]] * begun
        rig.router = Router(found.state, rig.log)
        rig.at_ms = found.state.at_ms + 1000
        rig.start()
        rig.do(c.Restate(at_ms=rig.at_ms, lost=found.lost, from_ms=0, to_ms=rig.at_ms))
        gap = rig.state.position
        rig.configure(InForce())
        rig.live("d", "e")
        for _ in range(more):
            flown = rig.arrive("s")
            assert isinstance(flown, Flown)
            rig.finish(flown)
        store.append(STREAM, rig.log.entries[begun:], begun)
    return gap


def test_after_all_snapshots_were_lost_it_is_proved_from_the_gap_on(
    log: Path, reader: SqliteReader
) -> None:
    retire(log, 3)
    gap = restated(log, more=5)
    proved = verify(Source(reader, snapshots=Snapshots(log)))
    assert proved.difference is None
    assert (proved.begins_at, proved.gaps, proved.decisions) == (gap, 1, 5)
    assert proved.events == reader.head().seq - gap + 1


def test_it_is_proved_from_the_earliest_snapshot_where_that_comes_first(
    log: Path, reader: SqliteReader
) -> None:
    make_snapshots(log)
    retire(log, 3)
    lost, earliest = borders(log)[:2]
    Snapshots(log).path(lost).unlink()
    proved = verify(Source(reader, snapshots=Snapshots(log)))
    assert proved.difference is None
    assert proved.begins_at == earliest + 1
    assert proved.events == reader.head().seq - earliest


def test_replay_tells_the_same_with_snapshots_as_without(log: Path, reader: SqliteReader) -> None:
    make_snapshots(log)
    plain, quick = Source(reader), Source(reader, snapshots=Snapshots(log))
    first_ms, last_ms = next(plain.records()).at_ms, plain.last().at_ms
    for part in range(1, 6):
        at_ms = first_ms + (last_ms - first_ms) * part // 5
        assert tell_moment(quick, at_ms) == tell_moment(plain, at_ms)
    for row in last_decisions(plain, 400)[::60]:
        number = int(row.decision.removeprefix("r1/"))
        told = tell(quick, STREAM, number)
        assert told == tell(plain, STREAM, number)
        assert told.verified


def test_replay_folds_no_more_than_from_the_nearest_snapshot(
    log: Path, reader: SqliteReader
) -> None:
    make_snapshots(log)
    source = Source(reader, snapshots=Snapshots(log))
    for seq in (borders(log)[0], borders(log)[2] + 1, borders(log)[2] + 30):
        fold = source.fold_before(seq)
        assert fold.head.seq == max([b for b in borders(log) if b < seq], default=0)
    assert source.fold_before(1).head == Head()


def test_they_lie_a_spacing_apart_within_a_segment(
    log: Path, reader: SqliteReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "SPACING_ROWS", 100)
    monkeypatch.setattr(snapshot, "SPACING_TIMES", 0)
    end = reader.head().seq
    seqs = [0, *make_snapshots(log).seqs]
    assert set(borders(log)) < set(seqs)
    assert seqs[-1] == end
    assert max(after - seq for seq, after in pairwise(seqs)) == 100
    assert Snapshots(log).seqs() == seqs[:0:-1]


def test_later_ones_are_thinned_out_to_the_spacing(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "SPACING_ROWS", 100)
    monkeypatch.setattr(snapshot, "SPACING_TIMES", 0)
    make_snapshots(log)
    with closing(SqliteStore.open(log, sync="normal")) as store:
        begun = store.head().seq
        for _ in range(20):
            store.append(STREAM, busy_day(20).log.entries[-20:], store.stream_version(STREAM))
            make_snapshots(log)
        end = store.head().seq
    seqs = sorted(Snapshots(log).seqs())
    assert seqs[-2:] == [end - 20, end]
    assert max(after - seq for seq, after in pairwise(seqs)) < 120
    assert len([seq for seq in seqs if seq > begun]) <= 2 + (end - begun) // 100


def test_large_ones_lie_further_apart(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "SPACING_ROWS", 100)
    monkeypatch.setattr(snapshot, "SPACING_TIMES", 10**6)
    made = make_snapshots(log).seqs
    assert set(made) - set(borders(log)) == {100, made[-1]}


def test_a_row_that_cannot_be_read_is_named_with_its_place_and_what_helps(log: Path) -> None:
    with closing(sqlite3.connect(log / "log-1.sqlite")) as base:
        base.execute("UPDATE events SET body = substr(body, 1, 10) WHERE seq = 7")
        base.commit()
    told = (
        f"^{STREAM}/7, seq 7: .* has an unreadable body: .*log verify.* restore the log from a copy"
    )
    with SqliteReader.open(log) as reader, pytest.raises(UnreadableEvent, match=told):
        recover(reader, STREAM)
    with pytest.raises(UnreadableEvent, match=told):
        make_snapshots(log)
