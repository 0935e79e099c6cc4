"""``--verify --rules-of-today``: a log of older rules, judged by today's code."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import orjson
import pytest

from tests.replay.rig import busy_day, changed, source_of, store_of, written_log
from tests.replay.test_command import data, run
from tests.rig import Rig
from trioroute.events import Event
from trioroute.policy import RULES_VERSION, select
from trioroute.policy import commands as c
from trioroute.policy.candidates import Candidate
from trioroute.policy.select import _spill_cause
from trioroute.replay.read import Source
from trioroute.replay.verify import verify

OLD = RULES_VERSION - 1


def _queues_did_not_matter(free: list[Candidate]) -> tuple[Candidate, ...]:
    """Step 2 passed nobody over for a queue."""
    return tuple([c for c in free if c.standing == "LIVE"] or free)


def _wider(home: Candidate, limit_m: int) -> object:
    """The slack was one more."""
    return _spill_cause(home, limit_m + 1000)


@contextmanager
def older_rules(name: str, variant: object) -> Iterator[None]:
    with patch.object(select, name, variant):
        yield


def _start(rig: Rig) -> tuple[Event, ...]:
    return rig.do(c.Start(at_ms=rig.at_ms, router="r1", release="0", rules=OLD))


def old_day(name: str, variant: object, decisions: int = 400) -> Rig:
    """A busy day under other code, which said so in its log."""
    with older_rules(name, variant), patch.object(Rig, "start", _start):
        return busy_day(decisions)


def test_without_it_the_first_decision_of_older_rules_ends_the_proof() -> None:
    rig = old_day("_no_wait", _queues_did_not_matter)
    found = verify(source_of(rig))
    assert found.difference is not None
    assert found.difference.what == "rule changed"
    assert not found.good


@pytest.mark.parametrize(
    ("name", "variant", "kind", "cause"),
    [
        ("_no_wait", _queues_did_not_matter, "replica", "other least loaded"),
        (
            "_spill_cause",
            _wider,
            "replica",
            "would have left the session pin: more run there than the slack allows",
        ),
    ],
)
def test_what_today_decides_otherwise_is_counted_by_cause(
    name: str, variant: object, kind: str, cause: str
) -> None:
    rig = old_day(name, variant)
    found = verify(source_of(rig), rules_of_today=True)
    today = found.today
    assert today is not None
    decisions = sum(entry.kind == "Dispatched" for entry in rig.log.entries)
    assert today.decisions == {OLD: decisions}
    assert found.decisions == decisions
    most = max(today.causes.values(), key=lambda one: one.count)
    assert (most.cause, most.kind, most.rules) == (cause, kind, OLD)
    assert 0 < today.differ < decisions
    assert (today.unexplained, found.difference, found.good) == (0, None, True)
    assert today.first is not None
    first = verify(source_of(rig)).difference
    assert first is not None
    assert (today.first.place, today.first.recomputed) == (first.place, first.recomputed)


def test_the_count_is_that_of_one_decision_taken_again_at_a_time() -> None:
    """Verify stops at the first difference; with that row mended it stops at the next."""
    rig = old_day("_no_wait", _queues_did_not_matter, decisions=60)
    today = verify(source_of(rig), rules_of_today=True).today
    assert today is not None
    places, rows = [], {row.version: row for row in store_of(rig.log.entries).read(0, 10_000)}
    with older_rules("_no_wait", _queues_did_not_matter):
        assert verify(source_of(rig)).difference is None  # the older code proves it all
    for version, row in rows.items():
        if row.kind == "Dispatched":
            again = verify(source_of(_until(rig, version)), rules_of_today=True).today
            assert again is not None
            places.append(again.differ)
    assert places[-1] == today.differ
    assert sorted(places) == places


def _until(rig: Rig, version: int) -> Rig:
    """Its log up to a decision and that one's own pin events."""
    entries = rig.log.entries
    end = version
    while end < len(entries) and orjson.loads(entries[end].body).get("dispatch") == version:
        end += 1
    cut = Rig()
    cut.log.entries[:] = entries[:end]
    return cut


def test_a_log_of_todays_rules_has_none() -> None:
    found = verify(source_of(busy_day(600)), rules_of_today=True)
    assert found.today is not None
    assert (found.today.differ, found.today.first, found.good) == (0, None, True)
    assert list(found.today.decisions) == [RULES_VERSION]
    assert found.digests >= 1


def test_a_difference_under_the_same_rules_fails() -> None:
    rig = busy_day(100)
    number = next(
        at for at, entry in enumerate(rig.log.entries, 1) if entry.kind == "Dispatched" and at > 50
    )
    source = Source(store_of(changed(rig.log.entries, number, weight_m=7)))
    found = verify(source, rules_of_today=True)
    assert found.today is not None
    assert found.today.unexplained >= 1
    assert not found.good


def test_pins_that_became_of_it_are_a_cause_of_their_own() -> None:
    with patch.object(Rig, "start", _start):
        entries = busy_day(120).log.entries
    at = next(
        place
        for place, entry in enumerate(entries, 1)
        if entry.kind == "Spilled" and orjson.loads(entry.body)["count"] == 1
    )
    source = Source(store_of(changed(entries, at, cause="full")[: at + 1]))
    found = verify(source, rules_of_today=True)
    assert found.today is not None
    (cause,) = found.today.causes.values()
    assert (cause.kind, cause.count) == ("pins", 1)


def test_damage_is_damage_all_the_same() -> None:
    rig = old_day("_no_wait", _queues_did_not_matter)
    ends = [at for at, entry in enumerate(rig.log.entries, 1) if entry.kind == "Released"]
    twice = orjson.loads(rig.log.entries[ends[0] - 1].body)["dispatch"]
    entries = changed(rig.log.entries, ends[-1], dispatch=twice)
    found = verify(Source(store_of(entries)), rules_of_today=True)
    assert found.difference is not None
    assert found.difference.what == "ending"
    assert not found.good


def test_the_command_counts_shows_and_exits_as_documented(tmp_path: Path) -> None:
    log = written_log(tmp_path / "log", old_day("_no_wait", _queues_did_not_matter))
    plain = run(log, "--verify")
    assert plain.exit_code == 1
    result = run(log, "--verify", "--rules-of-today")
    assert result.exit_code == 0, result.output
    assert f"under rules {OLD} would be decided otherwise" in result.stdout
    assert "other least loaded" in result.stdout
    told = data(log, "--verify", "--rules-of-today")
    assert told["verified"] is True
    assert told["today"]["rules"] == RULES_VERSION
    assert told["today"]["differ"] == sum(one["count"] for one in told["today"]["causes"])
    assert told["today"]["first"]["what"] == "rule changed"
    alone = run(log, "--rules-of-today")
    assert (alone.exit_code, alone.stdout) == (2, "")
    assert "--rules-of-today needs --verify" in alone.stderr
