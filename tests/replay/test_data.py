"""``--json`` holds what REPLAY.md says, and nothing else."""

import json
import time
import types
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import attrs
import pytest

from tests.house import pages
from tests.replay.answer_schema import ANSWERS, CLASSES, FILE, text
from tests.replay.rig import busy_day
from tests.replay.rig import written_log as written
from tests.replay.test_command import data, run
from tests.rig import Rig
from trioroute.replay import compare, requested, told
from trioroute.replay.incident import told as incident


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("data") / "log", busy_day(200))


def documented() -> dict[str, list[str]]:
    _, objects = pages.tables(pages.section(pages.page(pages.REPLAY), "As data"))
    return {name: pages.codes(fields) for name, fields in objects}


def test_every_object_and_field_is_documented_and_no_other() -> None:
    fields = {name: [one.name for one in attrs.fields(cls)] for name, cls in CLASSES.items()}
    del fields["Explanation"]  # its parts are fields of Told
    assert documented() == fields


def test_the_schema_that_is_delivered_is_of_these_answers() -> None:
    assert FILE.read_text() == text(), "python -m tests.replay.answer_schema writes it anew"
    questions, _ = pages.tables(pages.section(pages.page(pages.REPLAY), "As data"))
    assert {name.strip("`") for name, _ in questions} >= set(ANSWERS)


def check(value: object, kind: Any, where: str) -> None:
    """``value`` is what JSON makes of ``kind``."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is types.UnionType or type(None) in parts:
        if value is not None:
            (rest,) = [part for part in parts if part is not type(None)]
            check(value, rest, where)
    elif origin is tuple:
        assert isinstance(value, list), where
        for one in value:
            check(one, parts[0], f"{where}[]")
    elif origin is dict:
        assert isinstance(value, dict), where
        for one in value.values():
            if parts[1] is not Any:
                check(one, parts[1], f"{where}{{}}")
    elif attrs.has(kind):
        assert isinstance(value, dict), where
        assert list(value) == documented()[kind.__name__], where
        hints = get_type_hints(kind)
        for name, one in value.items():
            check(one, hints[name], f"{where}.{name}")
    else:
        assert type(value) is kind, f"{where}: {value!r} is not {kind}"


def test_answers_are_what_is_documented(log: Path) -> None:
    rows = data(log, "--last", "200")
    check(rows, tuple[told.DecisionRow, ...], "--last")
    for row in rows[:20]:
        check(data(log, "--decision", row["decision"]), told.Told, "--decision")
    again = next(row for row in rows if row["attempt"] == 2)
    check(data(log, "--request", again["request_id"]), tuple[told.Told, ...], "--request")
    listed = data(log, "--requests", "-1h", "--where", "replica=c")
    check(listed, requested.Listed, "--requests")
    check(data(log, "--session", "s3"), told.SessionTold, "--session")
    check(data(log, "--replica", "c"), told.ReplicaTold, "--replica")
    check(data(log, "--at", "-10s"), tuple[told.Moment, ...], "--at")
    found = data(log, "--incident", "-1h")
    check(found, incident.Incident, "--incident")
    assert found["first_cause"]["evidence"]
    check(data(log, "--compare", str(log)), compare.Compared, "--compare")


def test_the_proof_is_what_is_documented(log: Path) -> None:
    questions, _ = pages.tables(pages.section(pages.page(pages.REPLAY), "As data"))
    (fields,) = [value for question, value in questions if question == "`--verify`"]
    found = data(log, "--verify")
    assert pages.codes(fields)[:8] == list(found)[:8]
    assert {*found, *found["head"]} <= {*pages.codes(fields)}


def test_times_are_local_or_utc_as_asked(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        (local,), (utc,) = data(log, "--at", "-10s"), data(log, "--at", "-10s", "--utc")
        assert local["at"].endswith("+09:00")
        assert utc["at"].endswith("+00:00")
        assert local["at_ms"] == utc["at_ms"]
        naive = local["at"].removesuffix("+09:00"), utc["at"].removesuffix("+00:00")
        assert data(log, "--at", naive[0]) == [local]
        assert data(log, "--at", naive[1], "--utc") == [utc]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--session", "s33"), None),
        (("--session", "session-00012"), "did you mean 'session-0001'?"),
        (("--session", "sess"), "did you mean 'session-0001'?"),
        (("--replica", "gpu-1"), "did you mean 'gpu1'?"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(
    tmp_path: Path, arguments: tuple[str, str], hint: str | None
) -> None:

    rig = Rig().live("gpu1", "gpu2")
    rig.use("session-0001")
    result = run(written(tmp_path / "log", rig), *arguments)
    assert result.exit_code == 1
    assert (hint or "is in the log") in result.stderr
    assert ("did you mean" in result.stderr) is (hint is not None)


def test_a_path_that_is_no_log_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "trioroute-log").mkdir()
    written(tmp_path / "trioroute-logs", Rig().live("gpu1"))
    (tmp_path / "notes.txt").write_text("hello")
    missing = run(tmp_path / "trioroute-lgo", "--last", "1")
    assert missing.exit_code == 2
    assert "there is no such file or directory" in missing.stderr
    assert f"did you mean {tmp_path / 'trioroute-logs'}?" in missing.stderr, "the other is empty"
    other = run(tmp_path / "notes.txt", "--last", "1")
    assert other.exit_code == 2
    assert "the file is not of SQLite" in other.stderr
    assert "no event log at" in run(tmp_path / "trioroute-log").stderr


def test_one_is_not_many(tmp_path: Path) -> None:

    rig = Rig().live("a", "b")
    flown = rig.go("s")
    rig.fail(flown, cause="status", status=502)
    log = written(tmp_path / "log", rig)
    assert ", 1 decision, 0 digests, 0 restarts" in run(log, "--verify").stdout
    assert "session s: 1 decision (a 1)" in run(log, "--session", "s").stdout
    told_a = json.loads(run(log, "--replica", "a", "--json").stdout)
    assert told_a["endings"] == {"failed (the replica answered 502)": 1}
    assert "a: 1 dispatch, 0 of them" in run(log, "--replica", "a").stdout
