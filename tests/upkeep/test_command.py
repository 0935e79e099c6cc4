"""A command beside the router: what it says is bounded, and nothing of it is left behind."""

import sys
import tracemalloc
from pathlib import Path

import pytest
import trio

from tests.upkeep.alive import is_ended
from trioroute.upkeep.command import MESSAGE_BYTES, run_command


@pytest.mark.parametrize("words", [["no-such-program"], [""], ["a\0b"]])
async def test_a_command_that_cannot_be_started_is_a_failure(words: list[str]) -> None:
    assert (await run_command(words, 10)).failure


async def test_a_command_that_takes_too_longis_ended_with_all_it_started(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path / 'pid'}; wait"
    with trio.fail_after(50):
        ran = await run_command(["sh", "-c", script], 2)
    assert "took longer than 2 s" in ran.failure
    await is_ended(int((tmp_path / "pid").read_text()))


async def test_only_the_end_of_much_that_a_command_says_is_kept() -> None:
    says = "import sys; [sys.stderr.write('x' * 2**20) for _ in range(30)]; sys.exit('the reason')"
    tracemalloc.start()
    try:
        ran = await run_command([sys.executable, "-c", says], 60)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ran.failure.startswith("exit code 1: xxx")
    assert ran.failure.endswith("the reason")
    assert len(ran.told) <= MESSAGE_BYTES
    assert peak < 5 << 20


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "])
async def test_a_child_that_keeps_stderr_open_neither_delays_the_end_nor_outlives_it(
    tmp_path: Path, trap: str
) -> None:
    script = f"(echo started >&2; {trap}exec sleep 60) & echo $! > {tmp_path / 'pid'}"
    with trio.fail_after(50):
        ran = await run_command(["sh", "-c", script], 60)
    assert ran.failure == ""
    await is_ended(int((tmp_path / "pid").read_text()))
