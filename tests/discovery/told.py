"""What a source told, for tests that wait for it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from trioroute.discovery import Found, Source


@attrs.define
class Told:
    """``now`` is the last list, None in an outage or before the first."""

    now: tuple[Found, ...] | None = None
    lists_told: list[tuple[Found, ...]] = attrs.field(factory=list)
    outages: list[str] = attrs.field(factory=list)

    def found(self, replicas: Sequence[Found]) -> None:
        self.now = tuple(replicas)
        if not self.lists_told or self.lists_told[-1] != self.now:
            self.lists_told.append(self.now)

    def outage(self, why: str) -> None:
        self.now = None
        self.outages.append(why)

    async def lists(self, *names: str) -> None:
        await self._until(lambda: self.now is not None and self._names() == sorted(names), names)

    async def fails(self, why: str) -> None:
        await self._until(
            lambda: self.now is None and bool(self.outages) and why in self.outages[-1], why
        )

    def _names(self) -> list[str]:
        return sorted(one.name for one in self.now or ())

    async def _until(self, check: Callable[[], bool], wanted: object) -> None:
        deadline = trio.current_time() + 40
        while not check():
            assert trio.current_time() < deadline, (wanted, self.now, self.outages[-3:])
            await trio.sleep(0.01)


@asynccontextmanager
async def watched(source: Source) -> AsyncIterator[Told]:
    told = Told()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.watch, told)
        yield told
        nursery.cancel_scope.cancel()
