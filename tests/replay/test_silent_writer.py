"""A router that holds its log but writes no more is told by whatever reads the end of that log."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from eventlog.ownership import Ownership
from eventlog.sqlite import SqliteStore
from tests.replay.rig import store_of
from tests.replay.test_log_end import under_load
from trioroute.cli.root import main
from trioroute.events.views import VIEWS
from trioroute.replay import silent

SILENT = "a router writes this log, but its last row is "


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A log that is closed, and when its last row is."""
    directory = tmp_path_factory.mktemp("silent") / "log"
    store = SqliteStore.open(directory, views=VIEWS)
    entries = under_load()[0].log.entries
    store_of(entries, store)
    store.close()
    return directory, entries[-1].at_ms


def told(log: Path, *arguments: str) -> str:
    done = CliRunner().invoke(main, [*arguments[:1], str(log), *arguments[1:]])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.mark.parametrize("age_ms, is_told", [(4_000, False), (60_000, True)])
def test_who_writes_but_was_silent_for_long_is_told(
    log: tuple[Path, int], monkeypatch: pytest.MonkeyPatch, age_ms: int, is_told: bool
) -> None:
    directory, last_ms = log
    monkeypatch.setattr(silent, "now_ms", lambda: last_ms + age_ms)
    owner = Ownership.take(directory)
    try:
        assert (f"{SILENT}1 min old" in told(directory, "replay", "--last", "2")) == is_told
        assert (SILENT in told(directory, "replay", "--incident", "-1h")) == is_told
        for answer in (("--at", "now"), ("--requests", "-1h")):
            assert (SILENT in told(directory, "replay", *answer)) == is_told
    finally:
        owner.release()
    assert SILENT not in told(directory, "replay", "--last", "2"), "nobody writes it"
