"""Two exports into one file at once: each is whole, and none writes into the other's."""

import os
from pathlib import Path

import pytest

from trioroute.cli.log import export


def test_each_is_whole_and_the_file_is_of_who_ends_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "events.jsonl"
    with export._whole(output) as first:
        first.write(b"begun, ")
        monkeypatch.setattr(os, "getpid", lambda: 1)  # another process
        with export._whole(output) as second:
            second.write(b"of the second")
        assert output.read_bytes() == b"of the second"
        first.write(b"and ended by the first")
    assert output.read_bytes() == b"begun, and ended by the first"
    assert list(tmp_path.iterdir()) == [output]
