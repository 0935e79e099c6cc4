"""What replay still tells of logs that are torn, holed, half written, or hardly begun."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.chain import was_changed
from eventlog.reading import SqliteReader
from eventlog.record import Record
from eventlog.segments import list_segments
from eventlog.snapshots import DIRECTORY as SNAPSHOTS
from eventlog.sqlite import SegmentLimits, SqliteStore
from tests.replay.rig import STREAM, busy_day, written_log
from tests.replay.test_command import data, run
from tests.rig import Rig
from trioroute.events import UnreadableEvent
from trioroute.policy.commands import Arrive, Stop
from trioroute.recovery import recover
from trioroute.replay.read import Source
from trioroute.snapshot import make_snapshots

QUESTIONS = (
    ("--last", "3"),
    ("--decision", "r1/75"),
    ("--request", "q100"),
    ("--session", "s3"),
    ("--replica", "a"),
    ("--at", "-1s"),
    ("--incident", "-1h"),
    ("--verify",),
    ("--verify", "--rules-of-today"),
    ("--what-if", "policy.slack.session=4"),
    ("--step", "end"),
)


def changed_by(*commands: str) -> Callable[[Path], None]:
    def change(log: Path) -> None:
        with closing(sqlite3.connect(log / "log-1.sqlite")) as base:
            for command in commands:
                base.execute(command)
            base.commit()

    return change


def torn(log: Path) -> None:
    file = log / "log-1.sqlite"
    file.write_bytes(file.read_bytes()[:-9000])


def scribbled(log: Path) -> None:
    file = log / "log-1.sqlite"
    whole = bytearray(file.read_bytes())
    whole[40_960:45_056] = b"\xff" * 4096
    file.write_bytes(whole)


HOLE = changed_by("DELETE FROM events WHERE seq BETWEEN 300 AND 310")
HEADLESS = changed_by("DELETE FROM events WHERE seq <= 200")
UNREADABLE = changed_by("UPDATE events SET body = '{\"x' WHERE seq = 350")
DAMAGE = {
    "hole": HOLE,
    "headless": HEADLESS,
    "unreadable row": UNREADABLE,
    "one event": changed_by("DELETE FROM events WHERE seq > 1"),
    "no event": changed_by("DELETE FROM events"),
    "torn": torn,
    "scribbled": scribbled,
}


@pytest.fixture(scope="module")
def day_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole one in one file; tests spoil copies of it."""
    return written_log(tmp_path_factory.mktemp("day") / "log", busy_day(200))


def damaged(day_log: Path, directory: Path, damage: Callable[[Path], None]) -> Path:
    log = Path(shutil.copytree(day_log, directory / "log"))
    damage(log)
    return log


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_every_question_is_answered_or_refused_in_words(
    day_log: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    log = damaged(day_log, tmp_path, damage)
    for question in QUESTIONS:
        result = run(log, *question)
        assert result.exit_code in (0, 1, 2), (question, result.output)
        assert result.exception is None or isinstance(result.exception, SystemExit), question
        assert (result.exit_code == 0) or result.output.strip(), question
        assert "empty log directory" not in result.output  # that advice is the router's


@pytest.mark.parametrize(
    ("damage", "note", "most_lost"),
    [
        (HOLE, "rows are missing before r1/311: what they told is not counted", 20),
        (UNREADABLE, "what this row tells is not counted: r1/350", 1),
        (scribbled, "not all rows can be read: file", 150),
    ],
)
def test_an_incident_is_told_as_far_as_its_rows_go(
    day_log: Path, tmp_path: Path, damage: Callable[[Path], None], note: str, most_lost: int
) -> None:
    whole = data(day_log, "--incident", "-1h")
    told = data(damaged(day_log, tmp_path, damage), "--incident", "-1h")
    assert any(one.startswith(note) for one in told["notes"]), told["notes"]
    lost = whole["total"]["requests"] - told["total"]["requests"]
    assert 0 <= lost <= most_lost
    assert told["first_cause"] is not None
    text = run(tmp_path / "log", "--incident", "-1h").stdout
    assert text.index("What the log cannot tell") < text.index("First cause")


def test_a_cause_behind_missing_rows_says_that_an_earlier_one_may_be_among_them(
    tmp_path: Path,
) -> None:
    rig = Rig().live("a", "b")
    for _ in range(20):
        rig.pass_s(1).use()
    rig.eject("a")
    log = written_log(tmp_path / "log", rig)
    changed_by("DELETE FROM events WHERE seq BETWEEN 20 AND 24")(log)
    cause = data(log, "--incident", "-1h")["first_cause"]
    assert cause["kind"] == "eject"
    assert cause["before"][0]["text"] == (
        "rows are missing before this one: an earlier cause may be among them"
    )


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole one of several segments, with snapshots; tests prune copies of it."""
    directory = tmp_path_factory.mktemp("long") / "log"
    entries = busy_day(900).log.entries
    store = SqliteStore.open(directory, sync="normal", limits=SegmentLimits(size_bytes=100_000))
    for at in range(0, len(entries), 50):
        store.append(STREAM, entries[at : at + 50], at)
    store.close()
    make_snapshots(directory)
    assert len(list_segments(directory)) > 3
    assert (directory / SNAPSHOTS).is_dir()
    return directory


def pruned(
    long_log: Path, directory: Path, *, without: tuple[int, ...], snapshots: bool = True
) -> Path:
    """A copy some segments of which are gone."""
    left_out = None if snapshots else shutil.ignore_patterns(SNAPSHOTS)
    log = Path(shutil.copytree(long_log, directory, ignore=left_out))
    segments = list_segments(log)
    for place in without:
        segments[place].path.unlink()
    return log


@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize("without", [(0, 1), (2,)])
def test_a_pruned_log_is_told_as_far_as_it_goes(
    long_log: Path, tmp_path: Path, snapshots: bool, without: tuple[int, ...]
) -> None:
    log = pruned(long_log, tmp_path / "log", snapshots=snapshots, without=without)
    for question in QUESTIONS:
        result = run(log, *question)
        assert result.exception is None or isinstance(result.exception, SystemExit), question
        assert result.exit_code == 0 or result.output.strip(), question
    told = data(log, "--incident", "-1h")
    assert told["notes"]
    assert told["total"]["requests"] > 300


@pytest.mark.parametrize("question", [("--request", "q20"), ("--session", "s3"), ("--last", "1")])
def test_rows_that_a_search_cannot_find_are_told_with_the_answer(
    long_log: Path, tmp_path: Path, question: tuple[str, ...]
) -> None:
    assert "are not in the log" not in run(long_log, *question).stderr
    log = pruned(long_log, tmp_path / "holed", without=(2,))
    gone, following = list_segments(long_log)[2:4]
    result = run(log, *question)
    assert f"rows {gone.first} to {following.first - 1} are not in the log" in result.stderr
    retired = pruned(long_log, tmp_path / "retired", without=(0, 1))
    assert "are not in the log" not in run(retired, "--last", "1").stderr


@pytest.mark.parametrize("question", [("--request", "q20"), ("--session", "s3")])
def test_rows_that_miss_inside_a_segment_are_counted_beside_a_search(
    day_log: Path, long_log: Path, tmp_path: Path, question: tuple[str, ...]
) -> None:
    whole = run(day_log, *question)
    assert "lacks" not in whole.stderr
    for name, damage, count in (("hole", HOLE, 11), ("headless", HEADLESS, 200)):
        result = run(damaged(day_log, tmp_path / name, damage), *question)
        assert f"log-1.sqlite lacks {count} rows: what was told there is missing" in result.stderr
    retired = pruned(long_log, tmp_path / "retired", without=(0, 1))
    assert "lacks" not in run(retired, *question).stderr


def test_a_retired_beginning_is_told_and_a_snapshot_tells_the_fleet(
    long_log: Path, tmp_path: Path
) -> None:
    log = pruned(long_log, tmp_path / "log", without=(0, 1))
    told = data(log, "--incident", "-1h")
    assert told["notes"][0].startswith("the log begins at seq ")
    assert {lane["replica"] for lane in told["lanes"]} == {"a", "b", "c"}
    assert sum(data(log, "--replica", "a")["dispatches"].values()) > 50
    exact = data(log, "--what-if", "policy.slack.session=4")["exact"]
    assert exact["decisions"] > 300
    assert exact["unproved"] == 0


def test_a_span_without_a_row_tells_those_around_it(tmp_path: Path) -> None:
    rig = Rig().live("a")
    rig.do(Stop(at_ms=rig.at_ms, cause="signal"))
    rig.pass_s(3600)
    rig.restart()
    rig.pass_s(600).same()
    result = run(written_log(tmp_path / "log", rig), "--incident", "-40m/-20m")
    assert result.exit_code == 1
    stopped = next(at for at, one in enumerate(rig.log.entries, 1) if one.kind == "Stopped")
    assert f"between r1/{stopped} (Stopped) at 2023-" in result.stderr
    assert f" and r1/{stopped + 1} (Started) at 2023-" in result.stderr


def test_a_mistyped_or_shortened_request_is_answered_with_the_nearest(tmp_path: Path) -> None:
    rig = Rig().live("a")
    for name in ("order-service-1001", "order-service-1002", "payments-77"):
        arrive = Arrive(at_ms=rig.at_ms, request_id=name, model="m", prompt_bytes=4)
        assert rig.send(arrive) is not None
    log = written_log(tmp_path / "log", rig)
    for asked, meant in (("order-service-10002", "order-service-1002"), ("pay", "payments-77")):
        result = run(log, "--request", asked)
        assert result.exit_code == 1
        assert f"did you mean {meant!r}?" in result.stderr
    assert "did you mean" not in run(log, "--request", "nothing-like-it").stderr


def test_a_log_without_its_head_is_told_from_its_first_row(day_log: Path, tmp_path: Path) -> None:
    told = data(damaged(day_log, tmp_path, HEADLESS), "--incident", "-1h")
    assert "what r1 did before r1/201 is not told" in told["notes"]
    assert told["total"]["requests"] > 50


ONE_BIT = {
    "kind": changed_by("UPDATE events SET kind = 'X' || substr(kind, 2) WHERE seq = 350"),
    "schema": changed_by("UPDATE events SET schema = schema + 8 WHERE seq = 350"),
    "schema 0": changed_by("UPDATE events SET schema = 0 WHERE seq = 350"),
}


@pytest.mark.parametrize("lenient", [(), ("--lenient",)], ids=["", "lenient"])
@pytest.mark.parametrize("bit", ONE_BIT)
def test_a_bit_of_a_kind_or_schema_is_damage_and_no_newer_release(
    day_log: Path, tmp_path: Path, bit: str, lenient: tuple[str, ...]
) -> None:
    """`--lenient` passes over what a newer release wrote, and only that."""
    log = damaged(day_log, tmp_path, ONE_BIT[bit])
    for question in (("--at", "-1s"), ("--what-if", "policy.slack.session=4"), ("--step", "end")):
        result = run(log, *question, *lenient)
        assert result.exit_code == 2, (question, result.output)
        assert "r1/350 (seq 350) cannot be read: " in result.stderr
        assert "the row is not as it was written" in result.stderr
        assert "newer" not in result.output
        assert "passed over" not in result.output
    told = data(log, "--incident", "-1h", *lenient)
    assert any("r1/350 (seq 350) cannot be read" in one for one in told["notes"]), told["notes"]
    with SqliteReader.open(log) as reader, pytest.raises(UnreadableEvent) as start:
        recover(reader, STREAM)
    with pytest.raises(UnreadableEvent) as fold:
        make_snapshots(log)
    for told_of in (str(start.value), str(fold.value)):
        assert "the row is not as it was written" in told_of
        assert "newer" not in told_of
        assert "use the release" not in told_of


def test_behind_a_row_that_is_not_there_an_unknown_kind_is_a_newer_release_s(
    day_log: Path, tmp_path: Path
) -> None:
    """Nothing is left that would tell."""
    unknown = "UPDATE events SET kind = 'Teleported' WHERE seq = 350"
    gone = "DELETE FROM events WHERE seq < 350"
    with SqliteReader.open(damaged(day_log, tmp_path, changed_by(unknown, gone))) as reader:
        assert not was_changed(reader, 350)
        assert not was_changed(reader, 351)  # its chain goes on from the changed one's value
        assert not was_changed(reader, 10_000)
        source = Source(reader, lenient=True)
        record = Record(350, STREAM, 350, "Teleported", 1, 0, 0, b"{}", b"")
        assert source.event(record) is None
        assert source.skipped == {"Teleported": 1}
