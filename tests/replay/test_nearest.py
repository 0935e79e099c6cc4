"""A name that was mistyped is answered with the one that was meant, on a long log too."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import trioroute.replay.names as names
from eventlog.sqlite import SqliteReader
from tests.replay.rig import source_of, written_log
from tests.rig import Flown, Rig
from trioroute.nearest import nearest, slips
from trioroute.policy.commands import Arrive
from trioroute.policy.keys import digest_key
from trioroute.replay.find import dispatch_at, numbers_of_request, parse_decision
from trioroute.replay.listing import list_requests
from trioroute.replay.only import only_of
from trioroute.replay.read import NotFound, Source
from trioroute.replay.replica import tell_replica
from trioroute.replay.session import tell_session
from trioroute.row_index import index_of, make_index

SECRET = b"s" * 32


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("tyni", "tiny"),
        ("TINY", "tiny"),
        ("tinny", "tiny"),
        ("Qwen2.5-7B", "Qwen/Qwen2.5-7B"),
        ("qwen", "Qwen/Qwen2.5-7B"),
        ("llama", None),
        ("x", None),
    ],
)
def test_the_nearest_name_is_alike_whatever_case_and_order(name: str, meant: str | None) -> None:
    assert nearest(name, ("tiny", "Qwen/Qwen2.5-7B")) == meant


@pytest.mark.parametrize("typed", ["conv-55", "cnv-5", "ocnv-5", "conv-4", "conv-5 ", "CONV-5"])
def test_one_slip_of_the_hand_is_undone(typed: str) -> None:
    assert "conv-5" in set(slips(typed))


def busy(sessions: int = 3) -> Rig:
    rig = Rig().live("gpu1", "gpu2")
    for number in range(sessions):
        name = f"session-{number}-of-alice"
        arrive = Arrive(
            at_ms=rig.at_ms,
            request_id=f"order-{number}-for-alice",
            model="m",
            prompt_bytes=4,
            session=digest_key(SECRET, "session", "m", name),
        )
        flown = rig.send(arrive)
        assert isinstance(flown, Flown)
        rig.finish(flown)
    return rig


@pytest.fixture
def indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    """A log whose first requests and sessions are in the index only."""
    rig = busy()
    for _ in range(20):
        rig.finish(rig.go())
    log = written_log(tmp_path / "log", rig)
    monkeypatch.setattr("trioroute.row_index.OPEN_ROWS", 10)
    make_index(log)
    monkeypatch.setattr(names, "LAST_ROWS", 10)
    with closing(SqliteReader.open(log)) as reader:
        yield Source(reader, index=index_of(log))


def test_an_old_request_that_is_one_slip_away_is_found_by_the_index(indexed: Source) -> None:
    with pytest.raises(NotFound, match="did you mean 'order-1-for-alice'"):
        numbers_of_request(indexed, "order-1-fro-alice")
    where = r"no request has a name like it in the last 10 rows and, with one sign .* in the index"
    with pytest.raises(NotFound, match=where):
        numbers_of_request(indexed, "something-else")


def test_an_old_session_is_found_by_its_mistyped_raw_key(indexed: Source) -> None:
    with pytest.raises(NotFound, match="did you mean 'session-2-of-alice'"):
        tell_session(indexed, "session-2-of-alcie", SECRET)
    with pytest.raises(NotFound, match="no session has a name like it in the last 10 rows"):
        tell_session(indexed, "nobody", SECRET)


def test_a_session_is_found_without_an_index_too() -> None:
    source = source_of(busy())
    with pytest.raises(NotFound, match="did you mean 'session-1-of-alice'"):
        tell_session(source, "session-1-of-alic", SECRET)
    with pytest.raises(NotFound, match="did you mean session=session-1-of-alice"):
        list_requests(source, (0, 2**41), {"session": "session-11-of-alice"}, SECRET)
    with pytest.raises(NotFound, match="no session of the log has a name like it"):
        tell_session(source, "nobody", SECRET)


def test_only_names_the_nearest_session_where_no_replica_is_near(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET.hex())
    with pytest.raises(NotFound, match="did you mean 'session-1-of-alice'"):
        only_of(source_of(busy()), tmp_path, "session-1-of-alice-")


def test_a_wrong_replica_is_told_without_reading_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trioroute.replay.replica.rows_within", None)
    with pytest.raises(NotFound, match="it knows gpu1, gpu2; did you mean 'gpu1'"):
        tell_replica(source_of(busy()), "gpu11")


def test_a_wrong_router_names_those_there_are() -> None:
    source = source_of(busy())
    with pytest.raises(NotFound, match="no router 'r2'; its routers are r1"):
        dispatch_at(source, *parse_decision(source, "r2/5"))


def test_a_model_is_named_though_it_is_not_of_the_span() -> None:
    rig = busy()
    rig.live("other", models=("Qwen/Qwen2.5-7B",))
    late_ms = rig.pass_s(60).at_ms
    rig.finish(rig.go(model="Qwen/Qwen2.5-7B"))
    source = source_of(rig)
    asked = {"model": "Qwen2.5-7B"}
    with pytest.raises(NotFound, match=r"did you mean model=Qwen/Qwen2\.5-7B"):
        list_requests(source, (late_ms, rig.at_ms), asked)
    with pytest.raises(NotFound, match="what came then had model m"):
        list_requests(source, (0, late_ms - 1), {"model": "mm"})
