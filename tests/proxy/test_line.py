"""The lines: order, bound, and that no call is lost."""

import pytest
import trio
import trio.testing

from trioroute.proxy.line import Line, Ticket


def joined(line: Line, model: str = "m", bound: int = 99) -> Ticket:
    ticket = line.join(model, bound)
    assert ticket is not None
    return ticket


def is_called(ticket: Ticket) -> bool:
    return ticket.call.is_set()


def test_the_bound_is_for_all_lines_together() -> None:
    line = Line()
    tickets = [joined(line, model, 3) for model in ("m", "n", "m")]
    assert line.join("o", 3) is None
    assert len(line) == 3
    line.leave(tickets[0])
    joined(line, "o", 3)
    assert Line().join("m", 0) is None


def test_a_line_forms_and_goes() -> None:
    line = Line()
    assert not line.forms("m")
    ticket = joined(line)
    assert line.forms("m")
    assert not line.forms("n")
    line.leave(ticket)
    assert not line.forms("m")
    assert len(line) == 0


def test_the_first_of_every_line_is_called_and_nobody_else() -> None:
    line = Line()
    one, two, other = joined(line), joined(line), joined(line, "n")
    one.call = trio.Event()
    line.call_first()
    assert [is_called(ticket) for ticket in (one, two, other)] == [True, False, True]


def test_who_leaves_calls_the_next_one() -> None:
    line = Line()
    one, two, three = joined(line), joined(line), joined(line)
    one.call = trio.Event()
    line.leave(two)
    assert is_called(one)
    line.leave(one)
    assert is_called(three)


def test_leaving_twice_is_leaving_once() -> None:
    line = Line()
    one, two = joined(line), joined(line)
    line.leave(one)
    line.leave(one)
    assert len(line) == 1
    line.leave(two)
    line.leave(two)
    assert len(line) == 0


def test_a_call_can_be_handed_down_the_line() -> None:
    line = Line()
    one, two, three = joined(line), joined(line), joined(line)
    line.call_after(one)
    assert [is_called(two), is_called(three)] == [True, False]
    line.call_after(two)
    assert is_called(three)
    line.call_after(three)
    line.leave(one)
    line.call_after(one)


def test_who_joins_calls_the_first() -> None:
    line = Line()
    one = joined(line)
    assert not is_called(one)
    joined(line)
    assert is_called(one)


async def test_a_call_is_taken_once_and_another_one_may_come() -> None:
    line = Line()
    ticket = joined(line)
    line.call_first()
    line.call_first()
    await line.called(ticket)
    with trio.move_on_after(0.01) as waited:
        await line.called(ticket)
    assert waited.cancelled_caught
    line.call_first()
    with trio.fail_after(20):
        await line.called(ticket)


@pytest.mark.parametrize("room", [1, 3])
async def test_room_is_given_in_order(room: int) -> None:
    line = Line()
    served: list[int] = []
    left = room

    async def wait(number: int) -> None:
        nonlocal left
        ticket = joined(line)
        try:
            while not left:
                await line.called(ticket)
            left -= 1
            served.append(number)
        finally:
            line.leave(ticket)

    left = 0
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(wait, number)
            await trio.testing.wait_all_tasks_blocked()
        for _ in range(5):
            left = min(room, 5 - len(served))
            line.call_first()
            await trio.testing.wait_all_tasks_blocked()
    assert served == [0, 1, 2, 3, 4]
