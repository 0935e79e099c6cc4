"""The line of requests that found only full replicas (RULES 4.7): first come, first served."""

from collections import OrderedDict

import trio


class Line:
    """Bounded by ``max_waiting``; whoever waits is woken when something may have changed."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, trio.Event] = OrderedDict()
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, max_waiting: int) -> int | None:
        """A ticket, or None when the line is full."""
        if len(self._waiting) >= max_waiting:
            return None
        self._tickets += 1
        self._waiting[self._tickets] = trio.Event()
        return self._tickets

    async def called(self, ticket: int) -> None:
        """Return when it may be this ticket's turn. Every ticket must ``leave`` in the end."""
        event = self._waiting[ticket]
        await event.wait()
        if ticket in self._waiting:
            self._waiting[ticket] = trio.Event()

    def leave(self, ticket: int, *, served: bool) -> None:
        """Whoever was served calls the next one: there may be room for more than one."""
        self._waiting.pop(ticket, None)
        if served:
            self.call_next()

    def call_next(self) -> None:
        for event in self._waiting.values():
            if not event.is_set():
                event.set()
            return
