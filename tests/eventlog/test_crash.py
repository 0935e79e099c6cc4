"""A writer killed at any moment leaves a gapless prefix, never less than it acknowledged."""

import subprocess
import sys
from pathlib import Path

import pytest

from eventlog import Head
from eventlog.chain import verify_chain
from eventlog.conformance import read_all, some_entries
from eventlog.record import same_entries
from eventlog.segments import list_segments
from eventlog.sqlite import SqliteStore
from tests.ended import ended
from tests.eventlog.appender import PER_OFFER

ROOT = Path(__file__).parents[2]
ROUNDS = 5


def append_until_killed(directory: Path, acknowledgements: int, segment_bytes: int) -> int:
    """Start a writer, kill -9 it after so many acknowledged offers; the highest version it told."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.eventlog.appender", str(directory), str(segment_bytes)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with ended(process):
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(acknowledgements)]
        process.kill()
        rest = process.stdout.read()
    told += [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    return max(told)


@pytest.mark.parametrize("segment_bytes", [0, 1, 40_000], ids=["one", "each append", "some"])
def test_kill_9_leaves_a_gapless_prefix_of_at_least_what_was_acknowledged(
    tmp_path: Path, segment_bytes: int
) -> None:
    directory = tmp_path / "log"
    before = 0
    for round_ in range(ROUNDS):
        acknowledged = append_until_killed(directory, 5 + 40 * round_, segment_bytes)
        assert acknowledged > before
        store = SqliteStore.open(directory)  # the dead owner's lock needs no hand work
        records = read_all(store)
        count = len(records)
        assert count >= acknowledged
        assert count % PER_OFFER == 0, "an offer is whole or absent"
        assert same_entries(records, some_entries(count))
        assert [(r.seq, r.version) for r in records] == [(n, n) for n in range(1, count + 1)]
        assert verify_chain(records, Head()) == store.head()
        assert store.stream_version("a") == count
        store.close()
        before = count
    assert (len(list_segments(directory)) > 1) == bool(segment_bytes)
