"""HTTP/2: the clock of a client that opens no window runs from the first byte that cannot leave."""

import pytest
import trio

from tests.proxy.asker import asking
from tests.proxy.serving import chunk, eventually, serving, start
from trioroute.proxy.serving.asgi import Message, Receive, Scope, Send
from trioroute.proxy.serving.guarded import GuardedExchange
from trioroute.proxy.serving.hangup import Client, client_gone, client_stalled
from trioroute.proxy.serving.hub import Hub
from trioroute.proxy.serving.limits import ServerLimits

LIMITS = ServerLimits(client_stall_ms=300)


@pytest.mark.parametrize("window", [0, 7])
async def test_a_few_bytes_that_find_no_window_start_the_clock(window: int) -> None:
    """An answer that comes in small pieces, as tokens do, filled no buffer for minutes."""
    ends: list[tuple[bool, bool]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        try:
            await chunk(send, b"data: x\n\n")
            await trio.sleep_forever()
        finally:
            ends.append((client_gone(scope), client_stalled(scope)))

    async with serving(app, LIMITS) as server, asking(server, window=window) as asker:
        stream = await asker.ask("/")
        await eventually(lambda: ends == [(True, True)])
        await asker.read(lambda: stream in asker.broken)


async def test_pieces_that_leave_start_no_clock() -> None:
    """A replica may be silent for longer than a client."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await start(send)
        for _ in range(2):
            await chunk(send, b"data: x\n\n")
            await trio.sleep(4 * LIMITS.client_stall_ms / 1000)
        await chunk(send, b"", more=False)

    async with serving(app, LIMITS) as server, asking(server) as asker:
        stream = await asker.ask("/")
        await asker.read_whole(stream)
        assert asker.bodies[stream] == b"data: x\n\n" * 2


class Taking:
    """Stands for a stream that takes what it is given."""

    async def send(self, message: Message) -> None:
        pass

    async def break_stream(self, send: Send) -> None:
        raise NotImplementedError

    go_on = stop_sending = break_stream

    def timed_by(self, send: Send, clock: GuardedExchange) -> None:
        pass

    def undelivered(self, send: Send) -> bool:
        raise NotImplementedError

    stalled = undelivered


async def test_what_is_sent_behind_waiting_bytes_gives_no_more_time_and_what_is_taken_does(
    autojump_clock: trio.testing.MockClock,
) -> None:
    hub = Hub(ServerLimits(client_stall_ms=60_000), None)
    ends = Taking()
    exchange = GuardedExchange(b"", ends.send, Client(), hub, ends, True)
    never = float("inf")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        await chunk(exchange.send, b"x")
        assert exchange.deadline == never
        exchange.took(0, shut=True)
        begun = exchange.deadline
        assert begun < never
        await trio.sleep(50)
        await chunk(exchange.send, b"x")
        exchange.took(0, shut=True)
        assert exchange.deadline == begun
        exchange.took(1, shut=True)
        assert begun < exchange.deadline < never
        exchange.took(1, shut=False)
        assert exchange.deadline == never
        nursery.cancel_scope.cancel()
