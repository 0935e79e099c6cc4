"""The lines of requests that found only full replicas (RULES 4.7): first come, first served.

One line a model, so that nobody waits behind those who want another pool; one bound for all.
"""

from collections import OrderedDict

import attrs
import trio


@attrs.define(eq=False, slots=True)
class Ticket:
    """A place in the line of ``model``."""

    model: str
    call: trio.Event = attrs.field(factory=trio.Event)


class Line:
    """Whoever waits is called when something may have changed, the first of each line first."""

    def __init__(self) -> None:
        self._lines: dict[str, OrderedDict[Ticket, None]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def forms(self, model: str) -> bool:
        """Whether someone waits already: who comes later has to stand behind."""
        return model in self._lines

    def join(self, model: str, max_waiting: int) -> Ticket | None:
        """A ticket, or None when ``max_waiting`` stand in all lines together.

        The first in line is called: it may be waiting for what the new one has no need of.
        """
        if self._size >= max_waiting:
            return None
        ticket = Ticket(model)
        line = self._lines.setdefault(model, OrderedDict())
        if line:
            next(iter(line)).call.set()
        line[ticket] = None
        self._size += 1
        return ticket

    async def called(self, ticket: Ticket) -> None:
        """Return when it may be this ticket's turn. Every ticket must ``leave`` in the end."""
        await ticket.call.wait()
        ticket.call = trio.Event()

    def leave(self, ticket: Ticket) -> None:
        """The next one is called: there may be room for more than one, and no call gets lost."""
        line = self._lines.get(ticket.model)
        if line is None or ticket not in line:
            return
        del line[ticket]
        self._size -= 1
        if line:
            next(iter(line)).call.set()
        else:
            del self._lines[ticket.model]

    def call_after(self, ticket: Ticket) -> None:
        """``ticket`` cannot use the room there is, for it was at that replica: the next one may."""
        found = False
        for other in self._lines.get(ticket.model, ()):
            if found:
                other.call.set()
                return
            found = other is ticket

    def call_first(self) -> None:
        """Call the first of every line."""
        for line in self._lines.values():
            next(iter(line)).call.set()
