"""Retries and their budget, and the line in front of full replicas (RULES 4.6, 4.7)."""

import json
from collections.abc import Callable
from functools import partial

import pytest
import trio
import trio.lowlevel

from tests.proxy.replies import dies, heads, reply
from tests.proxy.scripted import Peer, always
from tests.proxy.serving import Reply, client, eventually
from tests.proxy.whole import Whole, chat, request, whole
from trioroute import events as e
from trioroute.policy import commands as c
from trioroute.router import Decided

GOOD = reply(b'{"good":1}')
SHORT = {"cooldown_ms": 1}


async def test_no_retry_where_none_is_allowed() -> None:
    async with whole(dies, always(GOOD), retries={"max": 0}) as rig:
        answer = await rig.ask()
        assert answer.status == 502
        assert answer.headers["x-trioroute-attempts"] == "1"


async def test_a_retry_goes_to_no_replica_twice() -> None:
    async with whole(dies, dies, dies, dies, retries={"max": 16, "budget_m": 1000}) as rig:
        answer = await rig.ask()
        assert answer.status == 502
        assert answer.headers["x-trioroute-attempts"] == "4"
        dispatched = await rig.events(e.Dispatched)
        assert [one.attempt for one in dispatched] == [1, 2, 3, 4]
        assert len({one.replica for one in dispatched}) == 4
        assert [len(one.earlier) for one in dispatched] == [0, 1, 2, 3]


async def test_three_retries_are_always_allowed_and_then_a_share() -> None:
    async def busy(peer: Peer) -> None:
        while await peer.request():
            await peer.send(reply(b"no", 502))

    eject = {"request_failures": 1000}
    async with whole(busy, busy, retries={"max": 1, "budget_m": 200}, eject=eject) as rig:
        tried = [int((await rig.ask()).headers["x-trioroute-attempts"]) for _ in range(25)]
        assert tried[:4] == [2, 2, 2, 1]
        assert sum(tried) - 25 == 5, "a fifth of 25"


async def test_what_was_never_sent_needs_no_budget() -> None:
    async with whole(always(GOOD), always(GOOD), refusing="a", retries={"budget_m": 0}) as rig:
        for _ in range(6):
            rig.do(c.Join, replica="a", url=f"http://127.0.0.1:1/{rig.journal.position}")
            rig.do(c.Join, replica="a", url="http://127.0.0.1:1", models=("m",))
            rig.scrape("a")
            assert (await rig.ask()).status == 200
        assert len(await rig.events(e.Failed)) > 3


# The line


class Slots:
    """A replica that answers each request when told."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.waiting: list[trio.Event] = []

    async def __call__(self, peer: Peer) -> None:
        while taken := await peer.request():
            self.order.append(json.loads(taken.partition(b"\r\n\r\n")[2])["user"])
            answered = trio.Event()
            self.waiting.append(answered)
            await answered.wait()
            await peer.send(GOOD)

    def answer(self) -> None:
        self.waiting.pop(0).set()

    def served(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.order) == count and bool(self.waiting)


async def queue(rig: Whole, nursery: trio.Nursery, names: str, **fields: object) -> list[Reply]:
    """One request after the other, each in its place before the next one comes."""
    answers: list[Reply] = []

    async def one(name: str) -> None:
        answers.append(await rig.ask(chat(user=name, **fields)))

    def known() -> int:
        return rig.in_flight + len(rig.desk.line) + len(answers)

    for at, name in enumerate(names, known() + 1):
        nursery.start_soon(one, name)
        await eventually(partial(_reached, known, at))
    return answers


def _reached(known: Callable[[], int], count: int) -> bool:
    return known() >= count


async def test_who_finds_only_full_replicas_waits_and_is_served_in_order() -> None:
    slots = Slots()
    async with whole(slots, eject=SHORT, probing={"max_in_flight": 2}) as rig:
        await rig.probing("a")
        async with trio.open_nursery() as nursery:
            answers = await queue(rig, nursery, "123456")
            assert (rig.in_flight, len(rig.desk.line)) == (2, 4)
            for served in range(3, 7):
                await eventually(lambda: len(slots.waiting) == 2)
                slots.answer()
                await eventually(slots.served(served))
            await eventually(lambda: len(slots.waiting) == 2)
            slots.answer()
            slots.answer()
        assert slots.order == list("123456")
        assert [answer.status for answer in answers] == [200] * 6
        dispatched = await rig.events(e.Dispatched)
        assert len(dispatched) == 6
        assert [one.waited_ms > 0 for one in dispatched[:3]] == [False, False, True]
        assert all(one.waited_ms > 0 for one in dispatched[2:])
        assert await rig.events(e.Refused) == []


async def test_a_place_that_became_free_belongs_to_the_line() -> None:
    """A newcomer that arrives before the first in line has moved finds the line still there."""
    slots = Slots()
    seen: list[tuple[str, bool]] = []
    async with whole(slots, eject=SHORT, probing={"max_in_flight": 1}) as rig:
        await rig.probing("a")
        newcomer = c.Arrive(at_ms=0, request_id="n", model="m", prompt_bytes=1)

        def look(decided: Decided) -> None:
            if isinstance(decided.events[0], e.Released):
                seen.append((rig.router.look(newcomer).verdict, rig.desk.line.forms("m")))

        rig.router.listeners.append(look)
        async with trio.open_nursery() as nursery:
            await queue(rig, nursery, "123")
            for served in (1, 2, 3):
                await eventually(slots.served(served))
                slots.answer()
        assert slots.order == list("123")
        assert seen == [("chosen", True), ("chosen", True), ("chosen", False)]


async def test_the_line_is_bounded_and_refuses_at_once() -> None:
    slots = Slots()
    limits = {"max_waiting": 2, "max_wait_ms": 60_000}
    async with whole(slots, eject=SHORT, probing={"max_in_flight": 1}, admission=limits) as rig:
        await rig.probing("a")
        async with trio.open_nursery() as nursery:
            await queue(rig, nursery, "123")
            begin = trio.current_time()
            answer = await rig.ask()
            assert trio.current_time() - begin < 20
            assert answer.status == 503
            assert json.loads(answer.body)["error"]["code"] == "overloaded"
            assert answer.headers["retry-after"] == "1"
            for served in (1, 2, 3):
                await eventually(slots.served(served))
                slots.answer()
        (refused,) = await rig.events(e.Refused)
        assert (refused.code, refused.model, refused.waited_ms) == ("overloaded", "m", 0)


async def test_who_waited_too_long_is_refused_and_was_never_dispatched() -> None:
    slots = Slots()
    limits = {"max_wait_ms": 100}
    async with whole(slots, eject=SHORT, probing={"max_in_flight": 1}, admission=limits) as rig:
        await rig.probing("a")
        async with trio.open_nursery() as nursery:
            await queue(rig, nursery, "1")
            begin = trio.current_time()
            answer = await rig.ask()
            assert 0.09 < trio.current_time() - begin < 4, "5 s is the default"
            assert json.loads(answer.body)["error"]["code"] == "overloaded"
            slots.answer()
        assert len(await rig.events(e.Dispatched)) == 1
        (refused,) = await rig.events(e.Refused)
        assert 90 <= refused.waited_ms < 4000


async def test_who_waits_when_the_grace_of_a_shutdown_is_over_is_refused_and_may_go_elsewhere() -> (
    None
):
    """It never ran: an end without a word would not say so, nor would the log."""
    slots = Slots()
    async with whole(slots, admission={"max_in_flight": 1, "max_wait_ms": 60_000}) as rig:
        async with trio.open_nursery() as nursery:
            answers = await queue(rig, nursery, "123")
            await eventually(slots.served(1))
            assert rig.desk.end_grace() == 2
            await eventually(lambda: len(answers) == 2)
            slots.answer()
        assert sorted(answer.status for answer in answers) == [200, 503, 503]
        turned_away = next(answer for answer in answers if answer.status == 503)
        assert turned_away.headers["retry-after"] == "1"
        assert json.loads(turned_away.body)["error"]["code"] == "shutting_down"
        refused = await rig.events(e.Refused)
        assert [(one.code, one.waited_ms > 0) for one in refused] == [("shutting_down", True)] * 2
        assert len(await rig.events(e.Dispatched)) == 1


async def test_a_client_that_leaves_the_line_is_dropped_at_once_and_the_next_is_served() -> None:
    slots = Slots()
    async with whole(slots, eject=SHORT, probing={"max_in_flight": 1}) as rig:
        await rig.probing("a")
        async with trio.open_nursery() as nursery:
            await queue(rig, nursery, "1")
            async with client(rig.port) as raw:
                await raw.send(request(chat(user="leaves")))
                await eventually(lambda: len(rig.desk.line) == 1)
                await queue(rig, nursery, "2")
                assert len(rig.desk.line) == 2
                raw.reset()
                await eventually(lambda: len(rig.desk.line) == 1)
            slots.answer()
            await eventually(lambda: slots.order == ["1", "2"])
            slots.answer()
        assert len(await rig.events(e.Dispatched)) == 2


async def test_nobody_waits_behind_those_who_want_another_pool() -> None:
    full, free = Slots(), Slots()
    one_each = {"max_in_flight": 1}
    async with whole(full, free, models=(("m",), ("n",)), admission=one_each) as rig:
        async with trio.open_nursery() as nursery:
            await queue(rig, nursery, "1")
            await queue(rig, nursery, "2", model="n")
            await queue(rig, nursery, "3")
            await queue(rig, nursery, "4", model="n")
            assert len(rig.desk.line) == 2
            await eventually(lambda: len(free.waiting) == 1)
            free.answer()
            await eventually(lambda: free.order == ["2", "4"])
            assert full.order == ["1"]
            free.answer()
            full.answer()
            await eventually(lambda: full.order == ["1", "3"])
            full.answer()


async def test_who_cannot_use_the_free_place_lets_the_next_one_pass() -> None:
    """The first in line failed at the replica that has room; the second never was there."""
    slots = Slots()
    first = trio.Event()

    async def fails_once(peer: Peer) -> None:
        if not first.is_set():
            first.set()
            await peer.request()
            return
        await slots(peer)

    one_each = {"max_in_flight": 1}
    async with whole(fails_once, slots, admission=one_each) as rig:
        async with trio.open_nursery() as nursery:
            rig.do(c.Drain, replica="a", on=True)
            await queue(rig, nursery, "1")
            rig.do(c.Drain, replica="a", on=False)
            answers = await queue(rig, nursery, "2")
            await eventually(lambda: len(rig.desk.line) == 1)
            assert answers == []
            await queue(rig, nursery, "3")
            await eventually(lambda: slots.order == ["1", "3"])
            slots.answer()
            await eventually(lambda: slots.order == ["1", "3", "2"])
            slots.answer()
            slots.answer()
        assert answers[0].headers["x-trioroute-attempts"] == "2"


@pytest.mark.parametrize("back", [True, False])
async def test_the_line_learns_of_what_changes_in_the_fleet(back: bool) -> None:
    slots = Slots()
    async with whole(slots, always(GOOD), eject=SHORT, probing={"max_in_flight": 1}) as rig:
        rig.do(c.Drain, replica="b", on=True)
        await rig.probing("a")
        async with trio.open_nursery() as nursery:
            await queue(rig, nursery, "1")
            answers = await queue(rig, nursery, "234")
            assert len(rig.desk.line) == 3
            if back:
                rig.do(c.Drain, replica="b", on=False)
            else:
                rig.do(c.Leave, replica="b")
                rig.do(c.Leave, replica="a")
            await eventually(lambda: len(answers) == 3)
            slots.answer()
        assert {answer.status for answer in answers} == ({200} if back else {503})


async def test_waiting_is_one_request_for_the_retry_budget() -> None:
    slots = Slots()
    async with whole(slots, eject=SHORT, probing={"max_in_flight": 1}) as rig:
        await rig.probing("a")
        async with trio.open_nursery() as nursery:
            await queue(rig, nursery, "12")
            for _ in range(20):
                rig.scrape()
                await trio.lowlevel.checkpoint()
            assert sum(slot[1] for slot in rig.desk.budget._slots) == 2
            slots.answer()
            await eventually(lambda: len(slots.order) == 2)
            slots.answer()
        assert heads(rig.replicas[0])() >= 1
