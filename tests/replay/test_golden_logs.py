"""Whole logs of earlier releases, kept for good: each proves its chain, folds and goes on."""

import gzip
import json
from contextlib import closing
from pathlib import Path

import pytest

from eventlog import Entry, Head
from eventlog.check import check_log
from eventlog.sqlite import SqliteReader, SqliteStore
from tests.replay.rig import STREAM
from trioroute.events import Stopped, encode, kind_of
from trioroute.events.views import VIEWS
from trioroute.policy import RULES_VERSION
from trioroute.recovery import recover
from trioroute.replay.read import Source
from trioroute.replay.verify import verify

GOLDEN = Path(__file__).parents[1] / "golden" / "logs"
HEADS: dict[str, tuple[str, int]] = {"0.1.0": ("402:c7ab78da3139aab877ff7a2b5cde5147", 1)}
"""By release: the head of its log, and the version of the rules it was written under."""


@pytest.fixture(params=HEADS)
def release(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def log(release: str, tmp_path: Path) -> Path:
    packed = (GOLDEN / f"{release}.sqlite.gz").read_bytes()
    (tmp_path / "log-1.sqlite").write_bytes(gzip.decompress(packed))
    return tmp_path


def test_its_rows_are_those_that_were_written(release: str, log: Path) -> None:
    found = check_log(log)
    assert (found.bad, found.begins_at, str(found.head)) == ([], 1, HEADS[release][0])


def test_its_state_is_folded_and_its_decisions_are_explained(release: str, log: Path) -> None:
    head, rules = HEADS[release]
    with SqliteReader.open(log) as reader:
        found = recover(reader, STREAM)
        assert found.state.position == Head.parse(head).seq
        assert list(found.state.fleet.replicas) == ["a", "b", "c"]
        proof = verify(Source(reader))
    if rules == RULES_VERSION:
        assert proof.difference is None
        assert proof.decisions > 100
    else:
        assert proof.difference is not None
        assert proof.difference.what == "rule changed"


def test_this_release_goes_on_in_it(release: str, log: Path) -> None:
    head = Head.parse(HEADS[release][0])
    stopped = Stopped(cause="signal", head=str(head))
    kind = kind_of(stopped)
    with closing(SqliteStore.open(log, views=VIEWS)) as store:
        version = store.stream_version(STREAM)
        entry = Entry(kind.name, kind.schema, 0, 0, encode(stopped))
        store.append(STREAM, [entry], version)
        rows = store.read(head.seq, 10)
    assert [(row.seq, json.loads(row.body)["head"]) for row in rows] == [(head.seq + 1, str(head))]
    assert check_log(log).bad == []
