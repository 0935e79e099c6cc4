"""The index of requests and sessions: with it replay finds what it finds without."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from eventlog.record import Record
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from tests.replay.rig import STREAM, busy_day
from tests.rig import Rig
from trioroute import row_index
from trioroute.policy.keys import digest_key
from trioroute.replay.find import numbers_of_request
from trioroute.replay.read import NotFound, Source
from trioroute.replay.session import tell_session
from trioroute.row_index import index_of, make_index, rows_with, session_word

SECRET = bytes(32)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments, one of them open, with pieces of 100 rows at most."""
    directory = tmp_path_factory.mktemp("made") / "log"
    entries = busy_day(900).log.entries
    store = SqliteStore.open(directory, sync="normal", limits=SegmentLimits(size_bytes=100_000))
    for n in range(0, len(entries), 50):
        store.append(STREAM, entries[n : n + 50], n)
    store.close()
    return directory


@pytest.fixture
def log(made_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(row_index, "PIECE_ROWS", 100)
    monkeypatch.setattr(row_index, "OPEN_ROWS", 10)
    shutil.copytree(made_once, tmp_path / "log")
    return tmp_path / "log"


@pytest.fixture
def reader(log: Path) -> Iterator[SqliteReader]:
    with SqliteReader.open(log) as reader:
        yield reader


def request_ids(reader: SqliteReader) -> list[str]:
    rows = reader.read(0, 10_000)
    return list({orjson.loads(row.body)["request_id"]: 0 for row in rows if row.kind in WITH_ID})


WITH_ID = ("Dispatched", "Refused")


def count_searched(reader: SqliteReader, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each search had before it."""
    searched: list[int] = []
    real = reader.search

    def search(
        kinds: Sequence[str], texts: Sequence[str], after: int, until: int, limit: int = 1000
    ) -> list[Record]:
        searched.append(until - after)
        return real(kinds, texts, after, until, limit)

    monkeypatch.setattr(reader, "search", search)
    return searched


def test_every_request_is_found_as_without_it(
    log: Path, reader: SqliteReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = request_ids(reader)[::7]
    without = [numbers_of_request(Source(reader), one) for one in ids]
    assert make_index(log) > 0
    source = Source(reader, index=index_of(log))
    searched = count_searched(reader, monkeypatch)
    assert [numbers_of_request(source, one) for one in ids] == without
    assert sum(searched) <= 10 * len(ids)
    with pytest.raises(NotFound, match="no decision of request 'q99999'"):
        numbers_of_request(source, "q99999")


def test_it_covers_closed_segments_whole_and_grows_with_the_open_one(log: Path) -> None:
    make_index(log)
    firsts = [file.first for file in list_segments(log)]
    pieces = index_of(log).pieces()
    with closing(SqliteStore.open(log, sync="normal")) as store:
        before = store.head().seq
        assert pieces[0].first == 1
        assert before - pieces[-1].last < 10
        assert {one.last + 1 for one in pieces} >= set(firsts[1:])
        assert make_index(log) == 0
        store.append(STREAM, busy_day(90).log.entries[-30:], store.stream_version(STREAM))
        assert make_index(log) == store.head().seq - pieces[-1].last
        assert index_of(log).pieces()[-1].last == store.head().seq
    for _ in range(5):
        with closing(SqliteStore.open(log, sync="normal")) as store:
            store.append(STREAM, busy_day(90).log.entries[-30:], store.stream_version(STREAM))
        make_index(log)
    small = [one for one in index_of(log).pieces() if one.first >= firsts[-1]]
    assert [one.first for one in small[1:]] == [one.last + 1 for one in small[:-1]]
    assert small[0].last - small[0].first + 1 == 100


def test_what_a_damaged_or_missing_piece_covers_is_searched(
    log: Path, reader: SqliteReader
) -> None:
    ids = request_ids(reader)[::50]
    without = [numbers_of_request(Source(reader), one) for one in ids]
    make_index(log)
    pieces = index_of(log).pieces()
    pieces[1].path.unlink()
    pieces[3].path.write_bytes(pieces[3].path.read_bytes()[:200])
    whole = pieces[5].path.read_bytes()
    pieces[5].path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    source = Source(reader, index=index_of(log))
    assert [numbers_of_request(source, one) for one in ids] == without


def test_the_pieces_of_retired_segments_go(log: Path, reader: SqliteReader) -> None:
    make_index(log)
    file = list_segments(log)[0]
    file.path.unlink()
    make_index(log)
    assert min(piece.first for piece in index_of(log).pieces()) == list_segments(log)[0].first
    with pytest.raises(NotFound):
        numbers_of_request(Source(reader, index=index_of(log)), "q1")


def test_a_session_is_told_as_without_it(
    log: Path, reader: SqliteReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = tell_session(Source(reader), "s3", None)
    make_index(log)
    source = Source(reader, index=index_of(log))
    searched = count_searched(reader, monkeypatch)
    assert list(rows_with(reader, source.index, ("Rebound",), {session_word("s3"): '"s3"'}))
    assert sum(searched) <= 10
    assert tell_session(source, "s3", None) == without


def test_a_session_is_found_by_its_raw_key_in_pieces_and_in_what_they_do_not_cover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_index, "OPEN_ROWS", 10)
    rig = Rig().live("a", models=("m", "n"))
    used = []
    for model, tail in (("m", 0), ("n", 1), ("m", 1)):
        with closing(SqliteStore.open(tmp_path, sync="normal")) as store:
            used.append(rig.use(digest_key(SECRET, "session", model, "mine"), model=model).number)
            for n in range(20):
                rig.use(digest_key(SECRET, "session", "m", f"other {n}"))
            there = store.stream_version(STREAM)
            store.append(STREAM, rig.log.entries[there:], there)
        if not tail:
            make_index(tmp_path)
    with SqliteReader.open(tmp_path) as reader:
        source = Source(reader, index=index_of(tmp_path))
        found = tell_session(source, "mine", SECRET)
        assert found == tell_session(Source(reader), "mine", SECRET)
        assert len(found.keys) == 2
        assert [row.decision for row in found.decisions] == [f"r1/{number}" for number in used]
        assert {row.end.outcome for row in found.decisions if row.end} == {"ok"}
        with pytest.raises(NotFound, match="did you mean"):
            tell_session(source, digest_key(SECRET, "session", "m", "other 3")[:-1] + "x", SECRET)
