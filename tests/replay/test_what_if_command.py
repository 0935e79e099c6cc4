"""``trioroute replay LOG --what-if`` as a user runs it."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from eventlog.record import Entry
from eventlog.sqlite import SqliteStore
from tests.replay.logs import naive_differences, played
from tests.replay.rig import store_of
from tests.replay.test_rest import with_times
from trioroute.cli.replay import replay_command
from trioroute.events.views import VIEWS
from trioroute.replay.clock import local_iso

REQUESTS = 400


def written(directory: Path, entries: Sequence[Entry]) -> Path:
    store = SqliteStore.open(directory, sync="normal", views=VIEWS)
    store_of(entries, store)
    store.close()
    return directory


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("what-if") / "log", played(REQUESTS)[0])


def run(log: Path, *changes: str, more: tuple[str, ...] = ()) -> Result:
    options = [part for change in changes for part in ("--what-if", change)]
    return CliRunner().invoke(replay_command, [str(log), *options, *more])


def test_both_parts_on_a_screen(log: Path) -> None:
    result = run(log, "policy.slack.session=4")
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert text.startswith("what if   policy.slack.session = 4 (recorded: 1)")
    naive = naive_differences(played(REQUESTS)[0], 4)
    assert f"exact     {len(naive)} of {REQUESTS} decisions would have been others" in text
    assert "would have used the session pin" in text
    assert f"first     r1/{naive[0]} at " in text
    assert "slack 1" in text
    assert "slack 4" in text
    assert "relative error: first byte" in text
    assert "a simulation, not a proof" in text
    assert text.index("exact ") < text.index("first ") < text.index("simulated, what if")
    assert result.stderr == ""


def test_the_same_as_data(log: Path) -> None:
    data = json.loads(run(log, "policy.slack.session=4", more=("--json",)).stdout)
    assert data["changes"] == [{"key": "policy.slack.session", "recorded": "1", "changed": "4"}]
    exact = data["exact"]
    assert exact["differ"] == sum(one["count"] for one in exact["causes"])
    assert exact["first"]["decision"] == data["simulated"]["begin"]
    assert exact["first"]["changed"]["reason"] == "affinity:session"
    assert data["simulated"]["fit"]["ttft"]["median"] < 0.25
    felt = {name: data["simulated"][name] for name in ("recorded", "as_recorded", "changed")}
    assert felt["changed"]["ttft_mean_s"] < felt["recorded"]["ttft_mean_s"]


def test_several_settings_at_once(log: Path, tmp_path: Path) -> None:
    short = written(tmp_path / "log", played(REQUESTS)[0][:300])  # too short to simulate its rest
    result = run(short, "policy.slack.session=4", "pins.session_ttl=1h", more=("--json",))
    data = json.loads(result.stdout)
    assert [one["recorded"] for one in data["changes"]] == ["1", "1h"]
    assert data["exact"]["differ"] > 0
    data = json.loads(run(log, "pins.session_ttl=1h", "log.sync=normal", more=("--json",)).stdout)
    assert data["notes"] == ["log.sync acts on no decision"]
    assert data["exact"]["differ"] == 0
    assert "nothing to simulate" in data["simulated"]["refused"]


def test_a_refused_fit_still_gives_the_exact_part(tmp_path: Path) -> None:
    log = written(tmp_path / "log", with_times(played(200)[0], 1))
    result = run(log, "policy.slack.session=4")
    assert result.exit_code == 0
    assert "first     r1/" in result.stdout
    assert "simulated nothing: no engine model explains the log's latencies" in result.stdout
    assert "simulated, what if" not in result.stdout


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("policy.slack.sesion=4", "the nearest is policy.slack.session"),
        ("slack.session=4", "policy.slack.session"),
        ("policy.slack.session=many", "is not a whole number"),
        ("policy.name=magic", "soft-sticky"),
        ("policy.slack.session", "needs KEY=VALUE"),
        ("log.path=elsewhere", "log.path acts on no decision"),
        ("eject.cooldown=1s", "not on which replica is chosen"),
        ("pins.prefix_chars=10", "the log holds only the keys"),
    ],
)
def test_what_cannot_be_asked_is_said(log: Path, change: str, text: str) -> None:
    result = run(log, change)
    assert result.exit_code == 2
    assert text in result.stderr


def test_one_question_at_a_time(log: Path) -> None:
    result = run(log, "policy.slack.session=4", more=("--verify",))
    assert result.exit_code == 2
    assert "--what-if and --verify" in result.stderr


def test_only_a_span_is_asked_about(log: Path) -> None:
    rows = [entry for entry in played(REQUESTS)[0] if entry.kind == "Dispatched"]
    middle = local_iso(rows[REQUESTS // 2].at_ms)
    late = [row for row in rows if row.at_ms >= rows[REQUESTS // 2].at_ms]
    text = run(log, "policy.slack.session=4", more=("--since", middle)).stdout
    assert f"decisions of {middle[:19]} to " in text
    assert f" of {len(late)} decisions would have been others" in text
    result = run(log, "policy.slack.session=4", more=("--since", middle, "--until", "-100d"))
    assert result.exit_code == 2
    assert "FROM must be before TO" in result.stderr
