"""``trioroute replay`` as a user runs it."""

import json
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

from eventlog.sqlite import SqliteStore
from tests.replay.rig import STREAM, busy_day, changed
from tests.replay.rig import written_log as written
from tests.rig import Rig
from trioroute.cli.replay import replay_command


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("replay") / "log", busy_day(200))


def run(log: Path, *arguments: str) -> Result:
    return CliRunner().invoke(replay_command, [str(log), *arguments])


def data(log: Path, *arguments: str) -> Any:
    result = run(log, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_piped_lines_have_no_blanks_at_their_ends(log: Path) -> None:
    for question in (("--last", "5"), ("--replica", "a"), ("--incident", "-1h"), ("--at", "-1s")):
        lines = run(log, *question).stdout.splitlines()
        assert lines
        assert [line for line in lines if line != line.rstrip()] == []


def test_the_last_decisions_are_the_way_in(log: Path) -> None:
    rows = data(log)
    assert len(rows) == 20
    assert data(log, "--last", "5") == rows[-5:]
    text = run(log, "--last", "5").stdout
    assert text.split()[:3] == ["decision", "time", "replica"]
    assert all(row["decision"] in text for row in rows[-5:])


def test_one_decision_from_directory_or_file(log: Path) -> None:
    name = data(log, "--last", "1")[0]["decision"]
    told = data(log, "--decision", name)
    assert told["verified"] is True
    assert data(log / "log-1.sqlite", "--decision", name) == told
    text = run(log, "--decision", name).stdout
    assert text.startswith(told["sentence"])
    assert len(text.splitlines()) < 40


def test_a_request_is_shown_with_all_its_attempts(log: Path) -> None:
    again = next(row for row in data(log, "--last", "200") if row["attempt"] == 2)
    told = data(log, "--request", again["request_id"])
    assert [one["request"]["attempt"] for one in told] == [1, 2]
    text = run(log, "--request", again["request_id"]).stdout
    assert f"tried again as {again['decision']}" in text
    assert f"attempt 1 was {told[0]['decision']}" in text


def test_sessions_replicas_and_moments(log: Path) -> None:
    assert data(log, "--session", "s3")["keys"] == ["s3"]
    assert "session pin" in run(log, "--session", "s3").stdout
    replica = data(log, "--replica", "c")
    assert any("EJECTED" in line["text"] for line in replica["history"])
    assert "EJECTED for at least 30 s" in run(log, "--replica", "c").stdout
    (moment,) = data(log, "--at", "-10s")
    assert [seen["name"] for seen in moment["replicas"]] == ["a", "b", "c"]
    assert data(log, "--at", moment["at"]) == [moment]
    assert "oldest in flight" in run(log, "--at", "-10s").stdout


def test_a_true_log_verifies(log: Path) -> None:
    result = run(log, "--verify")
    assert result.exit_code == 0
    assert result.stdout.startswith("verified: ")
    assert ", 1 restart\n" in result.stdout
    assert result.stderr == ""
    assert data(log, "--verify")["verified"] is True


def test_a_false_decision_fails_side_by_side(tmp_path: Path) -> None:
    rig = Rig().live("a", "b")
    flown = rig.go()
    rig.log.entries = changed(rig.log.entries, flown.number, replica="b")
    log = written(tmp_path / "log", rig)
    result = run(log, "--verify")
    assert result.exit_code == 1
    assert f"r1/{flown.number} is decided differently today (not deterministic)" in result.stdout
    assert "replica=b" in result.stdout
    assert "replica=a" in result.stdout
    found = json.loads(run(log, "--verify", "--json").stdout)
    assert found["difference"]["place"] == f"r1/{flown.number}"
    text = run(log, "--decision", str(flown.number)).stdout
    assert "different today's code decides otherwise: not deterministic" in text


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--decision", "r1/1"), 1, "r1/1 is a Started, not a decision"),
        (("--decision", "what"), 2, "such as r1/42"),
        (("--request", "nobody"), 1, "no decision of request 'nobody'"),
        (("--replica", "z"), 1, "it knows a, b, c"),
        (("--at", "soon"), 2, "write ISO time"),
        (("--at", "1999-01-01"), 1, "the log begins at"),
        (("--verify", "--last", "3"), 2, "one question at a time: --verify and --last"),
        (("--last", "3", "--replica", "a"), 2, "; --requests -1h --where replica=NAME lists those"),
        (("--last", "0"), 2, "0 is not in the range"),
        (("--what", "x"), 2, "No such option"),
    ],
)
def test_what_cannot_be_answered(
    log: Path, arguments: tuple[str, ...], code: int, text: str
) -> None:
    result = run(log, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert text in result.stderr


def test_no_log_is_wrong_usage(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere", "--verify")
    assert result.exit_code == 2
    assert "no event log at" in result.stderr


def test_a_newer_log_is_refused_unless_lenient(tmp_path: Path) -> None:
    rig = Rig().live("a", "b")
    rig.log.entries.append(attrs.evolve(rig.log.entries[0], kind="Teleported"))
    log = written(tmp_path / "log", rig)
    result = run(log, "--verify")
    assert result.exit_code == 2
    assert "is a Teleported of schema 2, written by a newer trioroute" in result.stderr
    result = run(log, "--verify", "--lenient")
    assert result.exit_code == 0
    assert "passed over 1 row of unknown kind Teleported" in result.stderr


def test_a_log_that_is_being_written_is_read_without_disturbing(tmp_path: Path) -> None:
    """Every verification sees whole commits while the writer goes on."""
    entries = busy_day(150).log.entries
    store = SqliteStore.open(tmp_path / "log", sync="normal")
    stop = threading.Event()

    def write() -> None:
        at = 0
        while at < len(entries) and not stop.is_set():
            more = at + 1
            while more < len(entries) and entries[more].kind not in ("Dispatched", "Released"):
                more += 1
            store.append(STREAM, entries[at:more], at)
            at = more

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while writer.is_alive():
            result = run(tmp_path / "log", "--verify")
            assert result.exit_code in (0, 2), result.output
            if result.exit_code == 2:
                assert "no event log" in result.stderr
    finally:
        stop.set()
        writer.join()
    assert json.loads(run(tmp_path / "log", "--verify", "--json").stdout)["events"] == len(entries)
    store.close()


def log_end(log: Path) -> int:
    (moment,) = data(log, "--at", "-0s")
    return int(moment["at_ms"])


def test_since_and_until_are_for_some_questions_only(tmp_path: Path) -> None:
    log = written(tmp_path / "log", busy_day(100))
    late = data(log, "--replica", "a", "--since", "-5s")
    whole = data(log, "--replica", "a")
    assert 0 < sum(late["dispatches"].values()) < sum(whole["dispatches"].values())
    compared = data(log, "--compare", str(log), "--since", "-5s")
    assert compared["log"]["decisions"] == compared["other"]["decisions"] < 50
    early = data(log, "--replica", "a", "--until", "-5s")
    assert sum(early["dispatches"].values()) > 30
    assert early["since_ms"] is None
    assert early["until_ms"] == log_end(log) - 5000
    for option in ("--since", "--until"):
        result = run(log, "--last", "3", option, "-5s")
        assert result.exit_code == 2
        assert f"{option} needs --replica, --compare or --what-if" in result.stderr
    result = run(log, "--replica", "aa", "--since", "-5s")
    assert result.exit_code == 1
    assert "nothing is told of 'aa' since 2" in result.stderr
    assert "did you mean 'a'?" in result.stderr


def test_a_column_of_times_says_when_they_are_utc(log: Path) -> None:
    for question in (
        ("--last", "3"),
        ("--requests", "-1h"),
        ("--replica", "a"),
        ("--session", "s3"),
    ):
        assert "time (UTC)" in run(log, *question, "--utc").stdout
        assert "time (UTC)" not in run(log, *question).stdout
