"""A reader does not make anew what was retired just before it opened it."""

from contextlib import closing
from pathlib import Path

import pytest

from eventlog import sqlite_opening
from eventlog.conformance import some_entries
from eventlog.segments import list_segments
from eventlog.sqlite import SegmentLimits, SqliteReader, SqliteStore
from eventlog.sqlite_segment import remove_file


def test_a_segment_that_is_unlinked_while_it_is_opened_stays_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    with closing(SqliteStore.open(log, limits=SegmentLimits(size_bytes=1))) as store:
        for n in range(3):
            store.append("a", some_entries(2, 2 * n), 2 * n)
    oldest = list_segments(log)[0].path
    real = sqlite_opening.is_complete

    def retired_meanwhile(path: Path) -> bool:
        complete = real(path)
        if path == oldest and path.exists():
            remove_file(path)
        return complete

    monkeypatch.setattr(sqlite_opening, "is_complete", retired_meanwhile)
    with closing(SqliteReader.open(log)) as reader:
        assert [row.seq for row in reader.read()] == [3, 4, 5, 6]
    assert not oldest.exists()
