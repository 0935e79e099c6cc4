"""The process that reads large bodies: started, asked, killed, stopped, and gone at the end."""

import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.proxy.questions import SECRET, prompt, question, read_here
from tests.proxy.serving import eventually, open_files
from trioroute.proxy.bodies import reader as reader_module
from trioroute.proxy.bodies.facts import Facts, Nameless, Question
from trioroute.proxy.bodies.process import COMMAND
from trioroute.proxy.bodies.reader import AWAY_BYTES, WAITS_BYTES, BodyReader
from trioroute.proxy.body import UnusableBody

HUGE = prompt(WAITS_BYTES)
ASKED = question()
DIES_OF_IT = "import os; os.write(0, bytes(4)); os.read(0, 1)"


def children() -> list[str]:
    """Processes below this one, the dead ones that nobody took leave of included."""
    threads = Path("/proc/self/task").glob("*/children")
    return sorted(pid for thread in threads for pid in thread.read_text("ascii").split())


def rss(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_bytes().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def running(*command: str) -> AsyncIterator[BodyReader]:
    """Leaving it leaves no process and no descriptor."""
    before, files = children(), open_files()
    reader = BodyReader(command or COMMAND)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        await trio.testing.wait_all_tasks_blocked()
        yield reader
        nursery.cancel_scope.cancel()
    assert children() == before
    assert open_files() == files


def child_of(reader: BodyReader) -> int:
    assert reader.child is not None
    return reader.child.pid


async def refusal(reader: BodyReader, body: bytes = HUGE) -> str:
    with pytest.raises(UnusableBody) as caught:
        await reader.facts(ASKED, body)
    assert (caught.value.error.code, caught.value.error.status) == ("overloaded", 503)
    assert caught.value.error.retry_after_s == 1
    return caught.value.error.message


async def test_a_large_body_is_read_by_a_child_and_a_small_one_is_not() -> None:
    async with running() as reader:
        assert await reader.facts(ASKED, prompt(1000)) == read_here(ASKED, prompt(1000))
        assert reader.child is None
        with trio.fail_after(30):
            assert await reader.facts(ASKED, HUGE) == read_here(ASKED, HUGE)
        pid = child_of(reader)
        for size in (AWAY_BYTES, 2_000_000, 30_000_000):
            body = prompt(size, stream=True)
            found = await reader.facts(ASKED, body)
            assert found == read_here(ASKED, body)
            assert isinstance(found, Facts)
            assert found.streams
        assert child_of(reader) == pid


async def test_while_the_child_starts_a_middling_body_does_not_wait_for_it() -> None:
    async with running() as reader:
        with trio.fail_after(40):
            await reader.facts(ASKED, prompt(AWAY_BYTES))
        assert reader.child is None
        await eventually(lambda: reader.child is not None, 30)


async def test_where_no_thread_can_be_had_bodies_are_read_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    async with running() as reader:
        monkeypatch.setattr(trio.lowlevel, "open_process", no_thread)
        assert await reader.facts(ASKED, HUGE) == read_here(ASKED, HUGE)
        assert reader.child is None


async def test_a_reader_that_does_not_run_reads_here() -> None:
    reader = BodyReader(("/nonexistent",))
    assert await reader.facts(ASKED, HUGE) == read_here(ASKED, HUGE)


async def test_the_child_has_no_file_of_the_router_and_shows_nothing() -> None:
    async with running() as reader:
        await reader.facts(ASKED, HUGE)
        own = Path(f"/proc/{child_of(reader)}")
        assert sorted(one.name for one in (own / "fd").iterdir()) == ["0", "1", "2"]
        assert [str((own / "fd" / name).readlink()) for name in "12"] == ["/dev/null"] * 2
        shown = (own / "cmdline").read_bytes() + (own / "environ").read_bytes()
        assert SECRET not in shown
        assert SECRET.hex().encode() not in shown
        assert b"PYTEST_CURRENT_TEST" not in shown
        assert "Max core file size        0                    0" in (own / "limits").read_text()
        assert (own / "oom_score_adj").read_text() == "500\n"
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(child_of(reader), number)
        assert os.getsid(child_of(reader)) != os.getsid(0)
        pid = child_of(reader)
        await reader.facts(ASKED, HUGE)
        assert child_of(reader) == pid


async def test_a_child_that_was_killed_idle_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as reader:
        await reader.facts(ASKED, HUGE)
        old = child_of(reader)
        os.kill(old, signal.SIGKILL)
        assert await reader.facts(ASKED, HUGE) == read_here(ASKED, HUGE)
        assert child_of(reader) != old
    assert "the body reader is lost" in caplog.text


async def test_a_child_killed_with_bodies_in_it_costs_no_answer() -> None:
    bodies = [prompt(WAITS_BYTES + 1000 * n, session_id=f"s{n}") for n in range(5)]
    found: dict[int, Facts | Nameless] = {}

    async def ask(number: int) -> None:
        found[number] = await reader.facts(ASKED, bodies[number])

    async with running() as reader:
        await reader.facts(ASKED, HUGE)
        old = child_of(reader)
        os.kill(old, signal.SIGSTOP)
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(ask, number)
            await trio.sleep(0.05)
            assert not found
            os.kill(old, signal.SIGKILL)
        assert child_of(reader) != old
    assert found == {n: read_here(ASKED, body) for n, body in enumerate(bodies)}


async def test_a_body_that_kills_two_children_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(sys.executable, "-c", DIES_OF_IT) as reader:
        assert "died of this one" in await refusal(reader)
        assert "died of this one" in await refusal(reader)
    assert caplog.text.count("the body reader is lost") == 4


async def test_who_hangs_up_does_not_put_others_out_of_step() -> None:
    async with running() as reader:
        await reader.facts(ASKED, HUGE)
        pid = child_of(reader)
        for patience_s in (0.0, 0.001, 0.01, 0.05):
            os.kill(pid, signal.SIGSTOP)  # the socket takes a part of the body only
            with trio.move_on_after(patience_s) as left:
                await reader.facts(ASKED, prompt(20_000_000, session_id="gone"))
            assert left.cancelled_caught
            os.kill(pid, signal.SIGCONT)
            for number in range(3):
                body = prompt(AWAY_BYTES, session_id=str(number))
                assert await reader.facts(ASKED, body) == read_here(ASKED, body)
        assert child_of(reader) == pid


async def test_who_hangs_up_in_line_frees_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as reader:
        await reader.facts(ASKED, HUGE)
        os.kill(child_of(reader), signal.SIGSTOP)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.facts, ASKED, HUGE)
            await trio.testing.wait_all_tasks_blocked(0.02)
            monkeypatch.setattr(reader_module, "WAITING_MAX", 1)
            async with trio.open_nursery() as leaving:
                leaving.start_soon(reader.facts, ASKED, HUGE)
                await trio.testing.wait_all_tasks_blocked(0.02)
                assert "too many" in await refusal(reader)
                leaving.cancel_scope.cancel()
            nursery.start_soon(reader.facts, ASKED, HUGE)
            await trio.testing.wait_all_tasks_blocked(0.02)
            os.kill(child_of(reader), signal.SIGCONT)


async def test_a_child_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as reader:
        await reader.facts(ASKED, HUGE)
        old = child_of(reader)
        monkeypatch.setattr(reader_module, "WAIT_S", 0.2)
        os.kill(old, signal.SIGSTOP)
        assert "within" in await refusal(reader)
        monkeypatch.setattr(reader_module, "WAIT_S", 30.0)
        await eventually(lambda: reader.child is not None and reader.child.pid != old, 30)
        assert await reader.facts(ASKED, HUGE) == read_here(ASKED, HUGE)


async def test_a_child_whose_memory_grew_is_replaced() -> None:
    others = len(children())  # of tests before, such as multiprocessing's own
    async with running(*COMMAND, "1") as reader:
        pids = set()
        for _ in range(3):
            assert await reader.facts(ASKED, HUGE) == read_here(ASKED, HUGE)
            await eventually(lambda: reader.child is not None, 30)
            pids.add(child_of(reader))
        assert len(pids) > 1
        await eventually(lambda: len(children()) == others + 1, 30)


async def test_a_giant_body_leaves_no_giant_child() -> None:
    body = b'{"model":"m","x":[' + b'"ab",' * 8_000_000 + b"0]}"  # some 600 MB as Python's objects
    async with running() as reader:
        assert await reader.facts(ASKED, body) == read_here(ASKED, b'{"model":"m"}')
        await eventually(lambda: reader.child is not None, 30)
        assert rss(child_of(reader)) < 128 << 20


@pytest.mark.parametrize(
    "command",
    [("/nonexistent",), (sys.executable, "-c", "raise SystemExit(3)"), ("",), ("/bin/cat",)],
    ids=["missing", "exits", "empty", "another"],
)
async def test_where_it_does_not_start_bodies_are_read_here_with_one_warning(
    command: tuple[str, ...], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trioroute.proxy.bodies.process.START_S", 0.3)
    with caplog.at_level(logging.WARNING):
        async with running(*command) as reader:
            for _ in range(3):
                assert await reader.facts(ASKED, HUGE) == read_here(ASKED, HUGE)
            reader._hopeless_until_s = 0.0
            assert await reader.facts(ASKED, HUGE) == read_here(ASKED, HUGE)
            assert reader.child is None
    (warning,) = [one for one in caplog.records if "does not start" in one.getMessage()]
    assert "large bodies are read on the event loop" in warning.getMessage()


async def test_a_start_that_failed_is_tried_again_soon_and_then_ever_later() -> None:
    pauses_s: list[float] = []
    async with running("/nonexistent") as reader:
        for _ in range(5):
            reader._hopeless_until_s = 0.0
            pauses_s.append(reader._again_s)
            before_s = trio.current_time()
            assert await reader.facts(ASKED, HUGE) == read_here(ASKED, HUGE)
            assert reader._hopeless_until_s >= before_s + pauses_s[-1]
        assert pauses_s == [1, 4, 16, 60, 60]
        reader.command, reader._hopeless_until_s = COMMAND, 0.0
        assert await reader.facts(ASKED, HUGE) == read_here(ASKED, HUGE)
        assert reader.child is not None


async def test_an_answer_of_another_kind_is_a_lost_child() -> None:
    talks = "import os; os.write(0, bytes(4)); os.read(0, 9); os.write(0, bytes((0,0,0,2)) + b'[]')"
    async with running(sys.executable, "-c", talks) as reader:
        assert "died" in await refusal(reader)


def test_a_question_does_not_show_its_secret() -> None:
    assert "secret" not in repr(ASKED)
    assert isinstance(ASKED, Question)
