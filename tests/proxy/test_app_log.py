"""The gate: nothing reaches a client before its decision is in the log, and a bad log refuses."""

import json
import threading
from typing import Any

import pytest
import trio

from eventlog.errors import LogError
from eventlog.faults import FaultyStore
from eventlog.memory import MemoryStore
from tests.proxy.replies import (
    GOOD_STREAM,
    LAST,
    chunk,
    dies,
    heads,
    reply,
    says,
    silent,
    stream,
    stream_head,
    token,
)
from tests.proxy.scripted import always
from tests.proxy.serving import Reply, client, eventually
from tests.proxy.whole import Whole, chat, request, whole
from trioroute import events as e
from trioroute.policy import commands as c

GOOD = reply(b'{"good":1}')
STREAMED = chat(stream=True)


class HeldStore(FaultyStore):
    """Blocks its writer's thread while ``held``."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.open = threading.Event()
        self.open.set()

    def append(self, *args: Any, **kwargs: Any) -> Any:
        self.open.wait(10)
        return super().append(*args, **kwargs)


def stalled(answer: Reply) -> bool:
    return answer.status == 503 and json.loads(answer.body)["error"]["code"] == "log_stalled"


async def settled(rig: Whole) -> None:
    await rig.journal.durable(rig.journal.position)


@pytest.mark.parametrize("body", [None, STREAMED])
async def test_the_response_waits_for_the_decision_to_be_durable(body: Any) -> None:
    store = HeldStore()
    script = always(stream(*GOOD_STREAM) if body else GOOD)
    async with whole(script, store=store, threaded=True) as rig:
        await settled(rig)
        store.open.clear()
        async with client(rig.port) as raw:
            await raw.send(request(body))
            await eventually(lambda: heads(rig.replicas[0])() == 1)
            with trio.move_on_after(0.15) as early:
                await raw.fill()
            assert early.cancelled_caught, "a byte came before its decision was durable"
            store.open.set()
            assert (await raw.reply()).status == 200
        assert (await rig.released()).outcome == "ok"


@pytest.mark.parametrize("body", [None, STREAMED])
async def test_a_log_that_stalls_is_503_and_the_replica_is_let_go_of(body: Any) -> None:
    store = HeldStore()
    script = says(stream_head(), chunk(GOOD_STREAM[0]), hang=True) if body else always(GOOD)
    async with whole(script, store=store, threaded=True, log={"gate_wait_ms": 100}) as rig:
        await settled(rig)
        store.open.clear()
        answer = await rig.ask(body)
        assert stalled(answer)
        assert answer.headers["retry-after"] == "1"
        assert "x-trioroute-replica" not in answer.headers
        if body:
            await eventually(lambda: rig.replicas[0].peers[0].gone.is_set())
        await rig.quiet()
        store.open.set()
        failed = await rig.end()
        assert isinstance(failed, e.Failed)
        assert (failed.cause, failed.blame) == ("timeout", "router")
        (refused,) = await rig.events(e.Refused)
        assert refused.code == "log_stalled"
        assert rig.router.state.health["a"].request_failures == 0


async def test_once_a_request_gave_up_on_the_log_no_replica_works_for_the_next_ones() -> None:
    store = HeldStore()
    async with whole(always(GOOD), store=store, threaded=True, log={"gate_wait_ms": 100}) as rig:
        await settled(rig)
        store.open.clear()
        assert stalled(await rig.ask())
        assert [stalled(await rig.ask()) for _ in range(3)] == [True] * 3
        assert heads(rig.replicas[0])() == 1
        await rig.quiet()
        store.open.set()
        await settled(rig)
        assert (await rig.ask()).status == 200
        assert [one.code for one in await rig.events(e.Refused)] == ["log_stalled"] * 4


@pytest.mark.parametrize("body", [None, STREAMED])
async def test_serve_lets_a_response_go_that_the_log_could_not_take_in_time(body: Any) -> None:
    store = HeldStore()
    script = always(stream(*GOOD_STREAM) if body else GOOD)
    log = {"gate_wait_ms": 100, "on_failure": "serve"}
    async with whole(script, store=store, threaded=True, log=log) as rig:
        await settled(rig)
        store.open.clear()
        answer = await rig.ask(body)
        assert answer.status == 200
        assert answer.headers["x-trioroute-decision"]
        store.open.set()
        assert (await rig.released()).outcome == "ok"
        (gap,) = await rig.events(e.Gap)
        assert (gap.lost, gap.unlogged) == (0, 1)


async def test_serve_goes_on_when_the_buffer_is_full_without_a_number_of_the_log() -> None:
    store = HeldStore()
    log = {"gate_wait_ms": 100, "on_failure": "serve"}
    async with whole(always(GOOD), store=store, threaded=True, entries_max=14, log=log) as rig:
        rig.router.log_healthy = store.open.is_set
        await settled(rig)
        store.open.clear()
        answers = [await rig.ask(headers=["x-session-id: s"]) for _ in range(30)]
        assert [answer.status for answer in answers] == [200] * 30
        assert "x-trioroute-decision" in answers[0].headers
        assert "x-trioroute-decision" not in answers[-1].headers
        store.open.set()
        await settled(rig)
        last = await rig.ask()
        assert "x-trioroute-decision" in last.headers
        (gap,) = await rig.events(e.Gap)
        assert gap.unlogged == 30
        assert gap.lost > 0
        assert gap.state is not None


async def test_an_error_of_the_router_waits_for_its_decision_too() -> None:
    store = HeldStore()
    async with whole(dies, store=store, threaded=True, log={"gate_wait_ms": 100}) as rig:
        await settled(rig)
        store.open.clear()
        assert stalled(await rig.ask())
        store.open.set()
        failed = await rig.end()
        assert (failed.cause, failed.blame) == ("fin", "replica")


async def test_a_full_buffer_refuses_and_changes_nothing_but_endings_are_taken() -> None:
    store = HeldStore()
    wait = {"gate_wait_ms": 10_000}
    async with whole(always(GOOD), store=store, threaded=True, entries_max=14, log=wait) as rig:
        await settled(rig)
        store.open.clear()
        answers: list[Reply] = []
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                answers.append(await rig.ask(headers=["x-session-id: s"]))

            for _ in range(30):
                nursery.start_soon(ask)
            await eventually(lambda: rig.in_flight + len(answers) == 30)
            refused = list(answers)
            position = rig.journal.position
            assert refused
            assert all(stalled(answer) for answer in refused)
            assert rig.in_flight == 30 - len(refused)
            assert rig.router.state.position == position
            store.open.set()
        assert sum(answer.status == 200 for answer in answers) == 30 - len(refused)
        assert {one.outcome for one in await rig.ends()} == {"ok"}


async def test_an_ending_is_taken_while_the_buffer_is_full() -> None:
    store = HeldStore()
    async with whole(
        silent, store=store, threaded=True, entries_max=6, log={"gate_wait_ms": 10_000}
    ) as rig:
        await settled(rig)
        store.open.clear()
        async with client(rig.port) as raw:
            await raw.send(request())
            await eventually(lambda: heads(rig.replicas[0])() == 1)
            while True:
                try:
                    rig.do(c.Refuse, request_id="x", code="rate_limited")
                except LogError:
                    break
            raw.reset()
        await rig.quiet()
        store.open.set()
        assert (await rig.released()).outcome == "client_gone"


async def test_a_dead_log_refuses_everything() -> None:
    async with whole(always(GOOD)) as rig:
        await settled(rig)
        rig.journal.close()
        assert stalled(await rig.ask())
        assert rig.in_flight == 0


async def test_gate_dispatch_sends_nothing_before_the_decision_is_durable() -> None:
    store = HeldStore()
    async with whole(
        always(GOOD), always(GOOD), store=store, threaded=True, log={"gate": "dispatch"}
    ) as rig:
        await settled(rig)
        store.open.clear()
        async with client(rig.port) as raw:
            await raw.send(request())
            await eventually(lambda: rig.in_flight == 1)
            await trio.sleep(0.05)
            assert heads(rig.replicas[0])() == 0
            rig.do(c.Leave, replica="a")
            store.open.set()
            answer = await raw.reply()
            assert answer.status == 200, "a replica that left meanwhile still answers"
            assert answer.headers["x-trioroute-replica"] == "a"
        assert (await rig.released()).outcome == "ok"


async def test_gate_dispatch_stalled_never_reaches_the_replica() -> None:
    store = HeldStore()
    log = {"gate": "dispatch", "gate_wait_ms": 50}
    async with whole(always(GOOD), store=store, threaded=True, log=log) as rig:
        await settled(rig)
        store.open.clear()
        assert stalled(await rig.ask())
        assert heads(rig.replicas[0])() == 0
        store.open.set()
        assert (await rig.end()).blame == "router"


async def test_the_wait_for_the_log_is_not_on_the_replicas_account() -> None:
    store = HeldStore()
    limits = {"first_byte_ms": 100, "idle_ms": 100}
    async with whole(always(GOOD), store=store, threaded=True, timeouts=limits) as rig:
        await settled(rig)
        store.open.clear()
        async with client(rig.port) as raw:
            await raw.send(request())
            await trio.sleep(0.3)
            store.open.set()
            assert (await raw.reply()).status == 200
        assert (await rig.released()).outcome == "ok"


async def test_gate_off_answers_at_once_and_counts_what_was_not_logged_yet() -> None:
    store = HeldStore()
    async with whole(always(GOOD), store=store, threaded=True, log={"gate": "off"}) as rig:
        assert (await rig.ask()).status == 200
        await settled(rig)
        before = rig.unlogged
        store.open.clear()
        for _ in range(3):
            assert (await rig.ask()).status == 200
        assert rig.unlogged == before + 3
        store.open.set()
        assert len(await rig.ends()) == 4


async def test_a_store_that_fails_for_a_moment_costs_nobody_an_error() -> None:
    store = FaultyStore(MemoryStore())
    async with whole(always(GOOD), store=store, threaded=True) as rig:
        await settled(rig)
        store.fail_next(2)
        assert (await rig.ask()).status == 200
        store.fail_after_commit(1)
        assert (await rig.ask()).status == 200


async def test_many_streams_survive_a_slow_log() -> None:
    store = FaultyStore(MemoryStore())
    store.delay(5)
    async with whole(
        says(stream_head(), *map(chunk, GOOD_STREAM), LAST), store=store, threaded=True
    ) as rig:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(rig.ask, STREAMED)
        assert [one.outcome for one in await rig.ends()] == ["ok"] * 20


async def test_a_wait_given_up_in_the_turn_that_ends_it_is_one_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with whole(says(stream_head(), chunk(token("a")), hang=True)) as rig:
        durable = rig.journal.durable
        monkeypatch.setattr(rig.journal, "is_durable", lambda position: False)

        async def just_too_late(position: int) -> None:
            await durable(position)
            for watched in rig.desk.watch._open:
                watched.broken = "log"
                watched.scope.cancel()

        monkeypatch.setattr(rig.journal, "durable", just_too_late)
        answer = await rig.ask(STREAMED)
        monkeypatch.undo()
        assert stalled(answer)
    assert [one.getMessage() for one in caplog.records] == ["refused: 1 log_stalled"]
