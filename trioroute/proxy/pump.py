"""Passes on the bodies of all responses under way, in one task over one epoll.

A stream of tokens is thousands of small chunks. Each response's own task would pay Trio for a wait
a chunk: a changed epoll registration, a way down and up ten frames, a turn of the scheduler, about
as much as receiving and sending the chunk. Here a body is registered once, and a chunk is one plain
step: receive, parse, note, send. Whatever is not that (the end, a failure, a client that takes no
more just now) goes back to the response's own task, which knows how to wait and to be cancelled.
"""

import select
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import attrs
import trio

from trioroute.proxy.tap import Tap
from trioroute.proxy.watch import Watched

STEPS_A_TURN = 32
TURN_NS = 2_000_000
"""Passed on before other tasks run: so many receives, or for so long, as one may bring 64 KiB or
thousands of chunks. Who is not served now is first next time."""


class Inlet(Protocol):
    """A replica's body (``UpstreamStream``)."""

    @property
    def complete(self) -> bool: ...

    @property
    def readable_fd(self) -> int | None: ...

    def read_now(self) -> bytes: ...


class Outlet(Protocol):
    """A client's response that has begun (``serving.exchange``)."""

    def pass_on(self, body: bytes) -> bytes: ...

    async def flush(self, rest: bytes) -> None: ...


@attrs.define(slots=True, eq=False)
class Lane:
    """One body on its way; ``tap`` and ``watched`` learn of each chunk."""

    inlet: Inlet
    outlet: Outlet
    tap: Tap
    watched: Watched
    task: trio.lowlevel.Task | None = None
    """Waits while the pump has the lane."""
    fd: int = -1
    chunk: bytes = b""
    unsent: bytes = b""
    error: Exception | None = None


@attrs.define(eq=False)
class Pump:
    """``carry`` is for the tasks of responses, ``run`` is the one task that works for them."""

    now_ms: Callable[[], int]
    now_ns: Callable[[], int] = time.monotonic_ns
    _epoll: select.epoll | None = attrs.field(default=None, init=False)
    _lanes: dict[int, Lane] = attrs.field(factory=dict, init=False)
    _ready: list[int] = attrs.field(factory=list, init=False)
    """Left over from the last turn, the next one last. One may be over by now, or be another's
    number: that one then finds nothing to receive."""

    def __len__(self) -> int:
        return len(self._lanes)

    def takes(self, inlet: Inlet) -> bool:
        """Whether it runs, and this body can be watched by an epoll."""
        return self._epoll is not None and inlet.readable_fd is not None

    async def carry(self, lane: Lane) -> bytes:
        """Pass on what comes, until the end or the pump's. The last chunk, not passed on; b"" if
        none came with the end.

        Raises UpstreamError, ClientGone.
        """
        while True:
            await self._wait(lane)
            if lane.error is not None:
                raise lane.error
            if not lane.unsent:
                return lane.chunk
            unsent, lane.unsent = lane.unsent, b""
            lane.watched.enter("client_stall", self.now_ms())
            await lane.outlet.flush(unsent)
            lane.watched.enter("idle", self.now_ms())
            if not self.takes(lane.inlet):
                return b""

    async def _wait(self, lane: Lane) -> None:
        fd = lane.inlet.readable_fd
        assert self._epoll is not None
        assert fd is not None
        self._epoll.register(fd, select.EPOLLIN)
        self._lanes[fd] = lane
        lane.fd, lane.task = fd, trio.lowlevel.current_task()

        def abort(raise_cancel: object) -> trio.lowlevel.Abort:
            self._let_go(lane)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def run(self) -> None:
        """Work until cancelled; lanes under way then go on in their own tasks."""
        with select.epoll() as epoll:
            self._epoll = epoll
            try:
                while True:
                    await trio.lowlevel.wait_readable(epoll.fileno())
                    self._turn(epoll)
            finally:
                self._epoll = None
                for lane in list(self._lanes.values()):
                    self._give_back(lane)

    def _turn(self, epoll: select.epoll) -> None:
        now_ms = self.now_ms()
        over_ns = self.now_ns() + TURN_NS
        ready = self._ready
        if not ready:
            ready.extend(fd for fd, _ in reversed(epoll.poll(0, STEPS_A_TURN)))
        while ready:
            lane = self._lanes.get(ready.pop())
            if lane is not None:
                self._step(lane, now_ms)
                if self.now_ns() >= over_ns:
                    return

    def _step(self, lane: Lane, now_ms: int) -> None:
        try:
            chunk = lane.inlet.read_now()
            if lane.inlet.complete:
                lane.chunk = chunk
                self._give_back(lane)
            elif chunk:
                unsent = lane.outlet.pass_on(chunk)
                lane.tap.feed(chunk)  # not of a chunk that found no client: it was not told
                lane.watched.since_ms = now_ms
                if unsent:
                    lane.unsent = unsent
                    self._give_back(lane)
        except Exception as error:  # whatever it is, it ends one response and not the pump
            lane.error = error
            self._give_back(lane)

    def _give_back(self, lane: Lane) -> None:
        task = self._let_go(lane)
        if task is not None:  # else it was cancelled meanwhile
            trio.lowlevel.reschedule(task)

    def _let_go(self, lane: Lane) -> trio.lowlevel.Task | None:
        if self._lanes.get(lane.fd) is lane:
            del self._lanes[lane.fd]
            if self._epoll is not None:
                with suppress(OSError):  # closed with the failure: the kernel forgot it by itself
                    self._epoll.unregister(lane.fd)
        task, lane.task = lane.task, None
        return task
