"""Beside a router that writes the log, replay gives way."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.sqlite import SqliteStore
from tests.replay.rig import STREAM, busy_day
from trioroute.cli import replay_source
from trioroute.cli.replay_source import POLITE, being_written, opened
from trioroute.replay.read import CannotRead


@pytest.fixture
def priorities(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the priority is set to; the test's own stays."""
    told: list[int] = []
    monkeypatch.setattr(os, "getpriority", lambda which, who: told[-1] if told else 0)
    monkeypatch.setattr(os, "setpriority", lambda which, who, value: told.append(value))
    return told


def test_a_log_that_is_written_is_read_at_a_low_priority(
    tmp_path: Path, priorities: list[int]
) -> None:
    with closing(SqliteStore.open(tmp_path, sync="normal")) as store:
        store.append(STREAM, busy_day(5).log.entries, 0)
        for _ in range(2):
            with opened(tmp_path, lenient=False) as source:
                assert source.spared_cores == 1
    assert priorities == [POLITE]


def test_a_log_that_nobody_writes_is_read_at_full_speed(
    tmp_path: Path, priorities: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteStore.open(tmp_path, sync="normal")) as store:
        store.append(STREAM, busy_day(5).log.entries, 0)
        assert being_written(tmp_path)
        assert being_written(tmp_path / "log-1.sqlite")
        with monkeypatch.context() as later:
            later.setattr(replay_source, "LIVE_S", -1)  # as a minute after the router died
            assert not being_written(tmp_path)
    with opened(tmp_path, lenient=False) as source:
        assert source.spared_cores == 0
    assert priorities == []


def test_a_log_beside_is_proposed_and_no_other_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / "mylogs").mkdir()
    with closing(SqliteStore.open(tmp_path / "mylog2", sync="normal")) as store:
        store.append(STREAM, busy_day(5).log.entries, 0)
    with (
        pytest.raises(CannotRead, match=f"did you mean {tmp_path / 'mylog2'}"),
        opened(tmp_path / "mylogs2", lenient=False),
    ):
        pass
