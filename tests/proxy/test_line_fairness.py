"""The line is fair over API keys, bounded, and loses nobody."""

from functools import partial

import pytest
import trio

from tests.proxy.replies import reply
from tests.proxy.scripted import Peer
from tests.proxy.serving import client, eventually
from tests.proxy.test_api_keys import key
from tests.proxy.whole import Whole, request, whole
from trioroute import events as e
from trioroute.proxy.line import Line, Ticket


def stand(line: Line, name: str, cost_m: int = 1000, weight: int = 1, bound: int = 99) -> Ticket:
    ticket = line.join("m", bound, key=name, cost_m=cost_m, weight=weight)
    assert ticket is not None
    return ticket


def served(line: Line) -> str:
    """The keys in the order in which they are served."""
    order = ""
    while line:
        first = line._lines["m"].tickets[0]
        line.leave(first)
        order += first.key
    return order


def test_a_flood_of_one_key_holds_up_no_other() -> None:
    line = Line()
    for _ in range(6):
        stand(line, "a")
    stand(line, "b")
    stand(line, "b")
    assert served(line) == "abab" + "aaaa"


def test_turns_are_taken_by_weight_of_prompts_and_of_keys() -> None:
    line = Line()
    for name in "aaabbb":
        stand(line, name, cost_m=3000 if name == "a" else 1000)
    assert served(line) == "abbbaa"
    for name in "aaaaaabbb":
        stand(line, name, weight=2 if name == "a" else 1)
    assert served(line) == "abaabaaba"


def test_one_key_is_first_come_first_served_whatever_it_asks() -> None:
    line = Line()
    tickets = [stand(line, "", cost_m=cost) for cost in (9000, 1, 500, 7)]
    assert line._lines["m"].tickets == tickets


def test_who_was_served_before_stands_behind_who_was_not() -> None:
    line = Line()
    one, _ = stand(line, "a"), stand(line, "a")
    line.leave(one)
    stand(line, "a")
    stand(line, "b")
    assert served(line) in ("aba", "baa")


def test_a_full_line_gives_the_newest_place_of_the_greediest_to_a_key_with_fewer() -> None:
    line = Line()
    tickets = [stand(line, "a", bound=3) for _ in range(3)]
    other = stand(line, "b", bound=3)
    assert len(line) == 3
    assert [ticket.turned_away for ticket in tickets] == [False, False, True]
    assert tickets[2].call.is_set()
    assert line.join("m", 3, key="b") is None, "one place less than the other is fair"
    assert line.join("m", 3, key="a") is None
    for ticket in (*tickets, other):
        line.leave(ticket)
    assert len(line) == 0


@pytest.mark.parametrize("flood", [5])
async def test_a_second_key_passes_a_flood_in_line(flood: int) -> None:
    everybody_waits = trio.Event()

    async def one_by_one(peer: Peer) -> None:
        while await peer.request():
            await everybody_waits.wait()
            await peer.send(reply())

    limits = {"max_in_flight": 1, "max_wait_ms": 5000}
    async with whole(one_by_one, admission=limits) as rig, trio.open_nursery() as nursery:
        rig.desk.keys.renew([key("a", "ka"), key("b", "kb")])

        async def ask(secret: str) -> None:
            async with client(rig.port) as raw:
                await raw.send(request(headers=[f"x-api-key: {secret}"]))
                assert (await raw.reply()).status == 200

        for waiting in range(flood):
            nursery.start_soon(ask, "ka")
            await eventually(partial(_stand, rig, waiting))
        nursery.start_soon(ask, "kb")
        await eventually(partial(_stand, rig, flood))
        everybody_waits.set()
    order = [d.key for d in await rig.events(e.Dispatched)]
    assert sorted(order) == ["a"] * flood + ["b"]
    assert order.index("b") <= 2


def _stand(rig: Whole, count: int) -> bool:
    return len(rig.desk.line) == count
