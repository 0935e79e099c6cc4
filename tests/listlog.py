"""A log in a list, and what must be true of any log and the state that was made with it."""

from collections.abc import Sequence

import attrs

from eventlog.errors import JournalFull
from eventlog.record import Entry
from trioroute import events as e
from trioroute.policy import decide
from trioroute.policy.decide import arrive_of
from trioroute.projections import State, apply
from trioroute.projections.digest import digest
from trioroute.projections.pins import checksum


@attrs.define
class ListLog:
    """A log in memory. While ``full``, it takes only what it must; while ``broken``,
    nothing.

    ``offers`` are the lengths of the log after each offer: an offer is durable whole or not at all.
    """

    entries: list[Entry] = attrs.field(factory=list)
    full: bool = False
    broken: bool = False
    offers: list[int] = attrs.field(factory=list)

    def offer(self, entries: Sequence[Entry], *, must_take: bool = False) -> int:
        if self.broken or (self.full and not must_take):
            raise JournalFull(1, 1, 1, 1)
        first = len(self.entries) + 1
        self.entries.extend(entries)
        self.offers.append(len(self.entries))
        return first

    def lose(self, most: int) -> None:
        """Forget up to ``most`` of the last offers, as if they had not been durable yet; never the
        router's own start, which it makes durable before it listens."""
        for _ in range(most):
            begin = self.offers[-2] if len(self.offers) > 1 else 0
            if self.entries[begin].kind in ("Started", "Configured"):
                return
            del self.entries[begin:], self.offers[-1]


def refold(entries: Sequence[Entry], *, check_decisions: bool = False) -> State:
    """The state of a log, from its bytes; optionally each decision is taken again on the way."""
    state = State()
    events = [e.decode(entry.kind, entry.schema, entry.body) for entry in entries]
    for at, (entry, event) in enumerate(zip(entries, events, strict=True)):
        if isinstance(event, e.Checked):
            assert event.digest == digest(state)
        if check_decisions and isinstance(event, e.Dispatched):
            decided = decide(state, arrive_of(event, entry.at_ms, state))
            assert decided == events[at : at + len(decided)]
        apply(state, at + 1, entry.at_ms, event)
    return state


def check_sums(state: State) -> None:
    """RULES 3: what is counted per replica is the sum over the flights, never negative.

    And what is kept beside the pin tables agrees with them.
    """
    flights = list(state.load.flights.values())
    for name, load in state.load.replicas.items():
        here = [flight for flight in flights if flight.replica == name]
        assert load.own == len(here)
        assert load.wlc_m == sum(flight.weight_m for flight in here)
    assert {flight.replica for flight in flights} <= state.load.replicas.keys()
    pins = state.pins
    sums = [checksum("session", key, pin) for key, pin in pins.session.items()]
    sums += [checksum("prefix", key, pin) for key, pin in pins.prefix.items()]
    assert pins.digest == sum(sums)
    assert pins.bound_order.keys() == pins.prefix.keys()
    assert all(pin.running == pins.running.get(key, 0) for key, pin in pins.session.items())
