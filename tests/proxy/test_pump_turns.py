"""The task that passes on all chunks leaves room for others, and serves all its streams alike."""

import socket

import trio

from tests.proxy.serving import eventually
from trioroute.proxy.pump import Lane, Pump
from trioroute.proxy.tap import Tap
from trioroute.proxy.watch import Watched


class Slow:
    """A replica's body that always has a chunk, which takes 1 ms of the pump's clock."""

    complete = False

    def __init__(self, served: list[int], clock: list[int]) -> None:
        ours, self._theirs = socket.socketpair()
        self._theirs.send(b"x")
        self._ours = ours
        self.readable_fd: int = ours.fileno()
        self._served, self._clock = served, clock

    def read_now(self) -> bytes:
        self._served.append(self.readable_fd)
        self._clock[0] += 1_000_000
        return b"x"

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


class Sink:
    def pass_on(self, body: bytes) -> bytes:
        return b""

    async def flush(self, rest: bytes) -> None:
        raise AssertionError


async def test_a_turn_ends_after_2_ms_and_goes_on_with_who_waits_longest() -> None:
    served: list[int] = []
    clock = [0]
    pump = Pump(now_ms=lambda: 0, now_ns=lambda: clock[0])
    inlets = [Slow(served, clock) for _ in range(50)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump.run)
        await eventually(lambda: pump.takes(inlets[0]))
        for inlet in inlets:
            watched = Watched("a", trio.CancelScope(), 0, 0)
            nursery.start_soon(pump.carry, Lane(inlet, Sink(), Tap(), watched))
        await eventually(lambda: len(pump) == 50)
        most = 0
        while len(served) < 1000:
            before = len(served)
            await trio.lowlevel.checkpoint()
            most = max(most, len(served) - before)
        nursery.cancel_scope.cancel()
    for inlet in inlets:
        inlet.close()
    assert most <= 4, "two turns: who of two tasks runs first is up to chance"
    counts = [served[-500:].count(inlet.readable_fd) for inlet in inlets]
    assert max(counts) - min(counts) <= 2
