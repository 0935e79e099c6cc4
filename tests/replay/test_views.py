"""The views for people, on a real SQLite file."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eventlog.sqlite import SqliteStore
from tests.replay.rig import busy_day, store_of
from tests.rig import Flown, Rig
from trioroute.events.views import VIEWS
from trioroute.policy.commands import Refuse, StandStill

Query = list[dict[str, Any]]


def scenario() -> Rig:
    rig = Rig().live("a", "b")
    rig.use("s")
    failed = rig.go("s", tokens=2000)
    rig.fail(failed, status=502)
    assert isinstance(rig.retry(failed), Flown)
    rig.drain("b")
    rig.drain("b", on=False)
    rig.eject("b")
    for _ in range(3):
        rig.do(Refuse(at_ms=rig.at_ms, request_id="q", code="overloaded"))
    rig.do(StandStill(at_ms=rig.at_ms, for_ms=1540))
    rig.restart()
    return rig


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    store = SqliteStore.open(tmp_path, sync="normal", views=VIEWS)
    store_of(scenario().log.entries, store)
    store.close()
    with closing(sqlite3.connect(tmp_path / "log-1.sqlite")) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


def rows(database: sqlite3.Connection, sql: str) -> Query:
    return [dict(row) for row in database.execute(sql)]


def test_decisions_have_their_ends(database: sqlite3.Connection) -> None:
    found = rows(database, "SELECT * FROM decisions ORDER BY seq")
    assert [(r["outcome"], r["attempt"], r["ttfb_ms"]) for r in found] == [
        ("ok", 1, 5),
        ("failed", 1, None),
        ("unknown", 2, None),
    ]
    assert [r["decision"] for r in found] == [f"r1/{r['seq']}" for r in found]
    assert (found[1]["status"], found[1]["blame"], found[1]["weight_m"]) == (502, "replica", 2000)
    assert found[0]["at"].startswith("2023-11-14T22:13:20.000Z")


def test_replicas_have_a_history(database: sqlite3.Connection) -> None:
    found = rows(database, "SELECT * FROM replica_history WHERE replica = 'b' ORDER BY seq")
    assert [r["what"] for r in found] == [
        "ReplicaJoined",
        "Live",
        "Draining",
        "Undrained",
        "ScrapeFailed",
        "Ejected",
    ]
    assert (found[-1]["cause"], found[-1]["n"]) == ("refused", 1)
    assert found[-1]["until"] == "2023-11-14T22:13:50.000Z"


def test_pins_have_a_history(database: sqlite3.Connection) -> None:
    found = rows(database, "SELECT * FROM pin_history ORDER BY seq")
    first = rows(database, "SELECT decision FROM decisions ORDER BY seq LIMIT 1")[0]["decision"]
    assert (found[0]["what"], found[0]["pin"], found[0]["key"]) == ("Bound", "session", "s")
    assert found[0]["decision"] == first
    assert found[1]["what"] == "Spilled"
    assert (found[1]["replica"], found[1]["spilled_to"], found[1]["count"]) == ("a", "b", 1)


def test_incidents_count_refusals_and_orphans(database: sqlite3.Connection) -> None:
    found = rows(database, "SELECT what, replica, detail, count FROM incidents")
    assert [(r["what"], r["replica"], r["detail"], r["count"]) for r in found] == [
        ("Started", None, "release 0", 1),
        ("Live", "a", None, 1),
        ("Live", "b", None, 1),
        ("Ejected", "b", "refused, 1 in a row", 1),
        ("Refused", None, "overloaded", 3),
        ("StoodStill", None, "1.5 s", 1),
        ("Started", None, "release 0", 1),
        ("Orphaned", None, None, 1),
    ]


def test_the_join_of_decisions_uses_an_index(tmp_path: Path) -> None:
    """Without one, the cost is the square of the log."""
    store = SqliteStore.open(tmp_path, sync="normal", views=VIEWS)
    store_of(busy_day(50).log.entries, store)
    store.close()
    with closing(sqlite3.connect(tmp_path / "log-1.sqlite")) as connection:
        plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN SELECT * FROM decisions")]
    assert any("INDEX (stream=? AND dispatch=?)" in step for step in plan), plan
