"""``trioroute log`` as a user runs it: on whole, damaged, retired and growing logs."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from eventlog.segments import list_segments
from eventlog.snapshots import Snapshots
from eventlog.sqlite import SegmentLimits, SqliteStore
from tests.replay.rig import STREAM, busy_day
from trioroute.cli.log.root import log_group
from trioroute.cli.root import main
from trioroute.events.views import VIEWS


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made") / "log"
    entries = busy_day(700).log.entries
    limits = SegmentLimits(size_bytes=150_000)
    store = SqliteStore.open(directory, sync="normal", limits=limits, views=VIEWS)
    for n in range(0, len(entries), 50):
        store.append(STREAM, entries[n : n + 50], n)
    store.close()
    return directory


@pytest.fixture
def log(made_once: Path, tmp_path: Path) -> Path:
    shutil.copytree(made_once, tmp_path / "log")
    return tmp_path / "log"


def run(command: str, *arguments: object) -> Result:
    return CliRunner().invoke(log_group, [command, *map(str, arguments)])


def data(command: str, *arguments: object, code: int = 0) -> Any:
    result = run(command, *arguments, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def change(log: Path, segment: int, statement: str) -> None:
    with closing(sqlite3.connect(list_segments(log)[segment].path)) as connection, connection:
        connection.execute(statement)


def test_info_tells_segments_snapshots_and_head(log: Path) -> None:
    run("snapshot", log)
    told = data("info", log)
    files = list_segments(log)
    assert [one["first"] for one in told["segments"]] == [file.first for file in files]
    assert [one["closed"] for one in told["segments"]] == [True] * (len(files) - 1) + [False]
    assert all(one["snapshot"] for one in told["segments"])
    assert told["events"] == told["head"]["seq"] == told["segments"][-1]["last"]
    assert told["gaps"] == []
    assert told["snapshots"] == sorted(Snapshots(log).seqs())
    text = run("info", log).stdout
    assert told["head"]["chain"] in text
    files[1].path.unlink()
    assert data("info", log)["gaps"] == [[files[1].first, files[2].first - 1]]
    assert f"missing    events {files[1].first}" in run("info", log).stdout


def test_verify_proves_a_whole_log(log: Path) -> None:
    told = data("verify", log)
    assert told["ok"] is True
    assert told["digests"] > 0
    assert told["rows"] == told["head"]["seq"]
    head = f"{told['head']['seq']}:{told['head']['chain']}"
    assert data("verify", log, "--head", head)["ok"] is True
    assert run("verify", log).stdout.startswith("verified: ")


def test_verify_names_the_bad_row_and_exits_with_1(log: Path) -> None:
    seq = list_segments(log)[1].first + 20
    change(log, 1, f"UPDATE events SET at_ms = at_ms + 1 WHERE seq = {seq}")
    told = data("verify", log, code=1)
    assert [bad["first"] for bad in told["bad"]] == [seq]
    assert told["bad"][0]["offset"] > 0
    assert told["holds"] == [[1, seq - 1], [seq + 1, told["head"]["seq"]]]
    text = run("verify", log).stdout
    assert f"bad: row {seq} of {list_segments(log)[1].path}, byte " in text
    assert f"holds: rows 1 to {seq - 1}, {seq + 1} to " in text


def test_verify_finds_a_log_that_was_rewritten_by_a_head_kept_elsewhere(log: Path) -> None:
    head = data("info", log)["head"]
    other = "0" * 32
    told = data("verify", log, "--head", f"{head['seq']}:{other}", code=1)
    assert told["missing_head"] == f"{head['seq']}:{other}"
    assert "it was rewritten" in run("verify", log, "--head", f"{head['seq']}:{other}").stdout
    assert run("verify", log, "--head", "5").exit_code == 2


def test_prune_unlinks_by_the_rules_and_verify_says_what_is_not_proved(log: Path) -> None:
    files = list_segments(log)
    would = data("prune", log, "--keep", "300KiB", "--dry-run")
    assert would["removed"] == [], "no snapshot is there, and a dry run makes none"
    told = data("prune", log, "--keep", "300KiB")
    assert told["removed"] == [file.path.name for file in files[: len(told["removed"])]]
    assert told["removed"]
    proved = data("verify", log)
    assert (proved["begins_at"], proved["anchored"]) == (list_segments(log)[0].first, True)
    assert "was retired and is not proved" in run("verify", log).stdout
    shutil.rmtree(log / "snapshots")
    assert data("verify", log)["anchored"] is False
    assert "is on trust" in run("verify", log).stdout
    assert run("prune", log).exit_code == 2
    assert run("prune", log, "--keep", "much").exit_code == 2


def test_prune_keeps_what_was_not_archived_unless_told(log: Path) -> None:
    (log / "archived").mkdir()
    result = run("prune", log, "--keep", "300KiB")
    assert "nothing" in result.stdout
    assert "log.archive has not taken it yet" in result.stderr
    assert data("prune", log, "--keep", "300KiB", "--unarchived")["removed"]


def test_export_writes_a_line_a_row_that_any_reader_of_json_takes(log: Path) -> None:
    lines = run("export", log).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    head = data("info", log)["head"]
    assert [row["seq"] for row in rows] == list(range(1, head["seq"] + 1))
    assert rows[-1]["chain"] == head["chain"]
    assert rows[0]["at"].endswith("Z")
    assert all(isinstance(row["body"], dict) for row in rows)
    target = log.parent / "out.jsonl"
    assert run("export", log, "--output", target).exit_code == 0
    assert target.read_text().splitlines() == lines


def exported(log: Path, *arguments: str) -> list[dict[str, Any]]:
    result = run("export", log, *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_export_chooses_by_time_kind_and_replica(log: Path) -> None:
    rows = exported(log)
    middle = rows[len(rows) // 2]
    later = exported(log, "--since", middle["at"])
    assert later == [row for row in rows if row["at_ms"] >= middle["at_ms"]]
    assert exported(log, "--until", middle["at"]) == [
        row for row in rows if row["at_ms"] <= middle["at_ms"]
    ]
    kinds = exported(log, "--kind", "Ejected", "--kind", "Live")
    assert {row["kind"] for row in kinds} == {"Ejected", "Live"}
    of_c = exported(log, "--replica", "c")
    sent = {row["version"] for row in of_c if row["kind"] == "Dispatched"}
    ended = {row["body"]["dispatch"] for row in of_c if row["kind"] in ("Released", "Failed")}
    assert sent
    assert ended
    assert ended <= sent
    assert all(row["body"]["replica"] == "c" for row in of_c if row["kind"] == "Dispatched")
    assert run("export", log, "--kind", "Nothing").exit_code == 2
    assert run("export", log, "--since", "then").exit_code == 2


def test_export_into_a_file_says_what_it_wrote(log: Path, tmp_path: Path) -> None:
    done = run("export", log, "--output", tmp_path / "all.jsonl")
    count = len((tmp_path / "all.jsonl").read_bytes().splitlines())
    assert done.stderr == f"wrote {count} events to {tmp_path / 'all.jsonl'}\n"
    assert done.stdout == ""


def test_export_of_a_replica_that_is_none_fails_as_replay_does(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "aa.jsonl"
    typo = run("export", log, "--replica", "aa", "--replica", "a", "--output", file)
    assert (typo.exit_code, typo.stdout) == (1, "")
    assert typo.stderr == (
        "Error: no replica 'aa' is in the log; it knows a, b, c; did you mean 'a'?\n"
    )
    assert not file.exists()
    early = run("export", log, "--replica", "a", "--until", "2001-01-01")
    assert early.exit_code == 0
    assert early.stderr == "Warning: --replica a: no event of these names it\n"


@pytest.mark.parametrize(
    "told", [("--keep", "1K"), ("--keep", "-3"), ("--older-than", "1y"), ("--keep", "0")]
)
def test_prune_names_the_option_and_the_value_that_it_cannot_read(
    log: Path, told: tuple[str, str]
) -> None:
    done = run("prune", log, *told)
    assert done.exit_code == 2
    option, value = told
    assert f"Error: Invalid value for {option}: '{value}' is n" in done.stderr
    assert "write" in done.stderr or "leave it out" in done.stderr


def test_prune_says_in_a_dry_run_that_snapshots_would_be_made_first(log: Path) -> None:
    done = run("prune", log, "--keep", "1KiB", "--dry-run")
    assert "without --dry-run missing snapshots are made first" in done.stderr
    assert "would go: nothing" in done.stdout
    newest = list_segments(log)[-1].path.name
    assert f"{newest} stays: the newest segment is the one that is written on" in done.stdout
    assert run("prune", log, "--keep", "1KiB").stdout.startswith("removed: log-1.sqlite, ")


def test_archive_copies_a_log_that_is_being_written(log: Path, tmp_path: Path) -> None:
    with closing(SqliteStore.open(log)) as store:
        version = store.stream_version(STREAM)
        store.append(STREAM, busy_day(3).log.entries[-1:], version)
        told = data("archive", log, tmp_path / "copy")
        assert told["head"]["seq"] == store.head().seq
        assert len(told["copied"]) == len(list_segments(log))
        again = data("archive", log, tmp_path / "copy")
        assert again["copied"] == [list_segments(log)[-1].path.name]
    assert data("verify", tmp_path / "copy")["head"] == told["head"]
    assert data("archive", log, tmp_path / "one.sqlite", "--one-file")["rows"] == version + 1
    with closing(sqlite3.connect(tmp_path / "one.sqlite")) as one:
        unended = one.execute("SELECT count(*) FROM decisions WHERE outcome IS NULL").fetchone()
    assert unended[0] <= 9, "ends are found across segments"
    assert run("archive", log, tmp_path / "one.sqlite", "--one-file").exit_code == 2


def test_a_copy_has_the_snapshots_that_tell_of_what_was_retired(log: Path, tmp_path: Path) -> None:
    run("snapshot", log)
    run("prune", log, "--keep", "300KiB")
    first = list_segments(log)[0].first
    assert first > 1
    told = data("archive", log, tmp_path / "copy")
    borders = [file.first - 1 for file in list_segments(log)]
    assert told["snapshots"] == sorted({*borders, told["head"]["seq"]})
    assert "not copied: " in run("archive", log, tmp_path / "copy").stdout
    replayed = CliRunner().invoke(main, ["replay", str(tmp_path / "copy"), "--verify"])
    assert replayed.exit_code == 0, replayed.output
    assert run("verify", tmp_path / "copy").exit_code == 0

    one = run("archive", log, tmp_path / "one.sqlite", "--one-file")
    assert f"begins at seq {first} and holds no snapshot: replay --verify proves" in one.stderr
    replayed = CliRunner().invoke(main, ["replay", str(tmp_path / "one.sqlite"), "--verify"])
    assert replayed.exit_code == 2
    assert "nor one made by log archive --one-file, which holds no snapshot" in replayed.stderr

    Snapshots(log).path(first - 1).write_bytes(b"damaged")
    bare = run("archive", log, tmp_path / "bare")
    assert f"begins at seq {first}, and {log} has no whole snapshot" in bare.stderr
    assert run("archive", log, tmp_path / "copy").stderr == "", "the copy kept its own"


def test_a_copy_keeps_the_newest_snapshot_only_beside_those_at_borders(
    log: Path, tmp_path: Path
) -> None:
    for n in range(3):
        with closing(SqliteStore.open(log)) as store:
            version = store.stream_version(STREAM)
            store.append(STREAM, busy_day(3).log.entries[-1:], version)
        run("snapshot", log)
        told = data("archive", log, tmp_path / "copy")
        assert len(told["snapshots"]) == len(list_segments(log)), n
        assert told["snapshots"][-1] == told["head"]["seq"]


@pytest.mark.parametrize("command", ["info", "verify", "export", "snapshot"])
def test_a_log_that_is_not_there_is_told(tmp_path: Path, command: str) -> None:
    result = run(command, tmp_path / "none")
    assert result.exit_code == 2
    assert "no event log at" in result.stderr


def test_nothing_is_written_by_looking(log: Path) -> None:
    """Neither changed nor left: SQLite's -wal and -shm are not made in a log at rest."""

    def state() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in log.iterdir() if path.is_file()}

    run("snapshot", log)
    before = state()
    for command in ("info", "verify", "export"):
        assert run(command, log).exit_code == 0
    assert CliRunner().invoke(main, ["replay", str(log)]).exit_code == 0
    assert state() == before
