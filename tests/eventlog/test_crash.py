"""A writer killed at any moment leaves a gapless prefix, never less than it acknowledged."""

import subprocess
import sys
from pathlib import Path

from eventlog import Head
from eventlog.chain import verify_chain
from eventlog.conformance import read_all, some_entries
from eventlog.record import same_entries
from eventlog.sqlite import SqliteStore
from tests.eventlog.appender import PER_OFFER

ROOT = Path(__file__).parents[2]
ROUNDS = 5


def append_until_killed(directory: Path, acknowledgements: int) -> int:
    """Start a writer, kill -9 it after so many acknowledged offers; the highest version it told."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.eventlog.appender", str(directory)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    told = [int(process.stdout.readline()) for _ in range(acknowledgements)]
    process.kill()
    rest = process.stdout.read()
    process.wait()
    process.stdout.close()
    told += [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    return max(told)


def test_kill_9_leaves_a_gapless_prefix_of_at_least_what_was_acknowledged(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    before = 0
    for round_ in range(ROUNDS):
        acknowledged = append_until_killed(directory, 5 + 40 * round_)
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
