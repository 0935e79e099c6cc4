"""Finding decisions by what a client knows, the newest first and within bounds."""

from pathlib import Path

import orjson
import pytest

from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from tests.replay.rig import busy_day, store_of
from tests.rig import Flown, Rig
from trioroute import row_index
from trioroute.policy.commands import Arrive, Refuse
from trioroute.policy.keys import digest_key
from trioroute.replay import lookup
from trioroute.replay import names as known_names
from trioroute.replay.find import numbers_of_request
from trioroute.replay.lookup import look_up
from trioroute.replay.read import NotFound, Source
from trioroute.row_index import index_of, make_index

SECRET = bytes(32)


def names(found: dict[str, object]) -> list[str]:
    rows = found["decisions"]
    assert isinstance(rows, list)
    return [row["decision"] for row in rows]


def of(rig: Rig, text: str) -> list[str]:
    return names(look_up(Source(store_of(rig.log.entries)), text, ("m",), SECRET))


def test_a_request_is_found_with_all_its_attempts_newest_first() -> None:
    rig = Rig().live("a", "b")
    first = rig.go()
    rig.fail(first, status=502)
    second = rig.retry(first)
    assert isinstance(second, Flown)
    rig.finish(second)
    rig.finish(rig.go())
    found = look_up(Source(store_of(rig.log.entries)), first.event.request_id, (), None)
    assert names(found) == [f"r1/{second.number}", f"r1/{first.number}"]
    assert found["complete"] is True
    assert found["decisions"][0] == {
        "decision": f"r1/{second.number}",
        "at_ms": rig.at_ms,
        "request_id": first.event.request_id,
        "model": "m",
        "replica": second.replica,
        "reason": "load",
        "attempt": 2,
    }


def test_a_session_is_found_by_its_digest_and_by_what_the_client_sent() -> None:
    rig = Rig().live("a", "b")
    digest = digest_key(SECRET, "session", "m", "agent-7")
    flown = rig.go(digest)
    rig.finish(flown)
    rig.finish(rig.go("another"))
    assert of(rig, digest) == [f"r1/{flown.number}"]
    assert of(rig, "agent-7") == [f"r1/{flown.number}"]


def test_what_is_not_there_is_told_with_what_to_look_for() -> None:
    rig = Rig().live("a")
    with pytest.raises(NotFound, match="'gon' is no request and no session of the log"):
        of(rig, "gon")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("order-fro-alice", "by its digest; did you mean 'order-for-alice'?"),
        ("agent-77", "by its digest; did you mean 'agent-7'?"),
        ("nothing", "by its digest; no request or session of the log has a name like it"),
    ],
)
def test_a_name_that_matches_nothing_is_answered_with_the_nearest(wanted: str, said: str) -> None:
    rig = Rig().live("a")
    session = digest_key(SECRET, "session", "m", "agent-7")
    rig.send(
        Arrive(
            at_ms=rig.at_ms,
            request_id="order-for-alice",
            model="m",
            prompt_bytes=4,
            session=session,
        )
    )
    with pytest.raises(NotFound) as caught:
        of(rig, wanted)
    assert str(caught.value).endswith(said)


def test_a_refused_request_is_found_with_its_story() -> None:
    rig = Rig().live("a")
    rig.do(Refuse(at_ms=rig.at_ms, request_id="gone", code="rate_limited", model="m", key="team"))
    found = look_up(Source(store_of(rig.log.entries)), "gone", (), None)
    assert found["decisions"] == []
    (told,) = found["refused"]
    assert (told["client"], told["model"], told["key"]) == ("429 rate_limited", "m", "team")
    assert told["place"] == f"r1/{rig.state.position}"
    orjson.dumps(found)


def test_only_the_newest_are_given_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "FOUND_MAX", 3)
    rig = Rig().live("a", "b")
    flown = [rig.use("s") for _ in range(5)]
    found = look_up(Source(store_of(rig.log.entries)), "s", (), None)
    assert names(found) == [f"r1/{one.number}" for one in reversed(flown[2:])]
    assert found["complete"] is False


def test_rows_without_an_index_are_searched_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig().live("a", "b")
    old = rig.use("old").number
    for _ in range(20):
        rig.use("new")
    monkeypatch.setattr(lookup, "SEARCHED_MAX", len(rig.log.entries) - old)
    monkeypatch.setattr(known_names, "LAST_ROWS", len(rig.log.entries) - old)
    with pytest.raises(NotFound, match=r"digest\. Only the newest rows were looked at"):
        of(rig, "old")
    assert of(rig, "new")
    monkeypatch.setattr(lookup, "SEARCHED_MAX", len(rig.log.entries) - old + 1)
    assert of(rig, "old") == [f"r1/{old}"]


@pytest.mark.parametrize("indexed", [False, True])
def test_in_a_log_of_segments_it_finds_what_replay_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indexed: bool
) -> None:
    monkeypatch.setattr(row_index, "PIECE_ROWS", 300)
    monkeypatch.setattr(row_index, "NEWEST_STEP", 70)
    entries = busy_day(400).log.entries
    limits = SegmentLimits(size_bytes=100_000)
    store = SqliteStore.open(tmp_path / "log", sync="normal", limits=limits)
    for n in range(0, len(entries), 50):
        store.append("router/r1", entries[n : n + 50], n)
    store.close()
    oldest, *others = list_segments(tmp_path / "log")
    assert others
    oldest.path.unlink()  # as retention does
    if indexed:
        make_index(tmp_path / "log")
    with SqliteReader.open(tmp_path / "log") as reader:
        source = Source(reader, index=index_of(tmp_path / "log"))
        rows = reader.read(others[0].first - 1, 5000)
        ids = {orjson.loads(one.body)["request_id"] for one in rows if one.kind == "Dispatched"}
        for request_id in sorted(ids)[::9]:
            (numbers,) = numbers_of_request(source, request_id).values()
            found = names(look_up(source, request_id, (), None))
            assert found == [f"r1/{number}" for number in reversed(numbers)]
