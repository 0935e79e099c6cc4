"""CPU time and memory as /proc tells them."""

import subprocess
import sys
import time

import pytest

from tests.bench import proc

STAT = (
    "1234 (a (b) c) S 77 1234 1234 0 -1 4194560 100 200 0 0 "
    "150 50 30 20 20 0 3 0 12345 1000000 200 18446744073709551615 1 1 0 0 0"
)


def test_a_stat_line_whose_command_has_parentheses_and_spaces() -> None:
    assert proc.parse_stat(STAT, ticks_per_s=100) == proc.Stat(parent=77, cpu_s=2.5)


def test_memory_is_the_proportional_share() -> None:
    text = "55d0-7ffc ---p 0 [rollup]\nRss:    2000 kB\nPss:    1500 kB\nPss_Dirty: 9 kB\n"
    assert proc.parse_memory(text) == 1500 * 1024
    with pytest.raises(ValueError, match="no Pss"):
        proc.parse_memory("Rss: 1 kB\n")


def test_a_tree_is_the_root_and_all_below_it_and_nobody_else() -> None:
    parents = {1: 0, 10: 1, 11: 10, 12: 11, 20: 1, 21: 20}
    stats = {pid: proc.Stat(parent, 1.0) for pid, parent in parents.items()}
    assert sorted(proc.tree_of(10, stats)) == [10, 11, 12]
    assert proc.tree_of(99, stats) == []


def test_cpu_time_of_a_child_counts_for_the_tree() -> None:
    burn = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
    code = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {burn!r}])\n"
    with subprocess.Popen(
        [sys.executable, "-c", code + "print('done', flush=True)\ntime.sleep(60)"],
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        try:
            assert parent.stdout.readline() == b"done\n"
            spent_s = proc.cpu_s(parent.pid)
        finally:
            parent.kill()
    assert 0.29 <= spent_s <= 5


def test_memory_of_a_process_grows_with_what_it_holds() -> None:
    code = "print(1, flush=True)\ninput()\nx = b'x' * 50_000_000\nprint(2, flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        before = proc.memory_bytes(child.pid)
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        grown = proc.memory_bytes(child.pid) - before
        child.kill()
    assert 45_000_000 < grown < 60_000_000
    deadline = time.monotonic() + 60
    while proc.memory_bytes(child.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert proc.memory_bytes(child.pid) == 0
