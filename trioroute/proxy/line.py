"""The lines of requests that found only full replicas (RULES 4.7): fair over keys, else in order.

One line a model, so that nobody waits behind those who want another pool; one bound for all. Within
a line, requests of one API key stand in the order they came, and keys take turns by the weight of
what they ask (start-time fair queueing: a request's tag is where its key's last one ended, or where
the line is now). Without keys everybody is the same one, and it is first come, first served.
"""

from bisect import insort

import attrs
import trio


@attrs.define(eq=False, slots=True)
class Ticket:
    """A place in the line of ``model``. ``turned_away``: it gave its place to a key with fewer."""

    model: str
    key: str
    tag: int
    number: int
    call: trio.Event = attrs.field(factory=trio.Event)
    turned_away: bool = False


@attrs.define(slots=True)
class _Waiting:
    """One line: where it is (``now``), and where each key's last request ended."""

    tickets: list[Ticket] = attrs.field(factory=list)
    now: int = 0
    ends: dict[str, int] = attrs.field(factory=dict)


class Line:
    """Whoever waits is called when something may have changed, the first of each line first."""

    def __init__(self) -> None:
        self._lines: dict[str, _Waiting] = {}
        self._size = 0
        self._number = 0

    def __len__(self) -> int:
        return self._size

    def forms(self, model: str) -> bool:
        """Whether someone waits already: who comes later has to stand in line."""
        return model in self._lines

    def join(
        self, model: str, max_waiting: int, *, key: str = "", cost_m: int = 1000, weight: int = 1
    ) -> Ticket | None:
        """A ticket, or None when ``max_waiting`` stand in all lines together.

        Then a key that has fewer places than another gets the newest of the one with most. The
        first in line is called: it may be waiting for what the new one has no need of.
        """
        if self._size >= max_waiting and not self._make_room(key, max_waiting):
            return None
        line = self._lines.setdefault(model, _Waiting())
        if line.tickets:
            line.tickets[0].call.set()
        tag = max(line.now, line.ends.get(key, 0))
        line.ends[key] = tag + max(1, cost_m // weight)
        self._number += 1
        ticket = Ticket(model, key, tag, self._number)
        insort(line.tickets, ticket, key=_place)
        if line.tickets[0] is ticket and len(line.tickets) > 1:
            ticket.call.set()
        self._size += 1
        return ticket

    async def called(self, ticket: Ticket) -> None:
        """Return when it may be this ticket's turn. Every ticket must ``leave`` in the end."""
        await ticket.call.wait()
        ticket.call = trio.Event()

    def leave(self, ticket: Ticket) -> None:
        """The next one is called: there may be room for more than one, and no call gets lost."""
        line = self._lines.get(ticket.model)
        if line is None or ticket not in line.tickets:
            return
        line.now = max(line.now, ticket.tag)
        self._drop(line, ticket)
        if line.tickets:
            line.tickets[0].call.set()
        else:
            del self._lines[ticket.model]

    def call_after(self, ticket: Ticket) -> None:
        """``ticket`` cannot use the room there is, for it was at that replica: the next one may."""
        line = self._lines.get(ticket.model)
        if line is None or ticket not in line.tickets:
            return
        after = line.tickets.index(ticket) + 1
        if after < len(line.tickets):
            line.tickets[after].call.set()

    def call_first(self) -> None:
        """Call the first of every line."""
        for line in self._lines.values():
            line.tickets[0].call.set()

    def call_all(self) -> None:
        """Call everybody: nobody is going to be served any more."""
        for line in self._lines.values():
            for ticket in line.tickets:
                ticket.call.set()

    def _make_room(self, key: str, max_waiting: int) -> bool:
        """Turn the newest ticket of the key with most places away, if ``key`` has two fewer."""
        counts: dict[str, int] = {}
        for line in self._lines.values():
            for ticket in line.tickets:
                counts[ticket.key] = counts.get(ticket.key, 0) + 1
        most = max(counts, key=lambda name: counts[name], default=key)
        if max_waiting <= 0 or counts.get(most, 0) < counts.get(key, 0) + 2:
            return False
        newest = max(
            (t for line in self._lines.values() for t in line.tickets if t.key == most),
            key=lambda ticket: ticket.number,
        )
        line = self._lines[newest.model]
        line.ends[newest.key] = newest.tag
        newest.turned_away = True
        newest.call.set()
        self._drop(line, newest)
        if not line.tickets:
            del self._lines[newest.model]
        return True

    def _drop(self, line: _Waiting, ticket: Ticket) -> None:
        line.tickets.remove(ticket)
        self._size -= 1


def _place(ticket: Ticket) -> tuple[int, int]:
    return ticket.tag, ticket.number
