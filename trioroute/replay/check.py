"""One router's rows, each judged from its own past."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import attrs

from eventlog.record import Record
from trioroute.events import (
    Bound,
    Checked,
    Dispatched,
    Event,
    Failed,
    Gap,
    Orphaned,
    Rebound,
    Released,
    Spilled,
    Started,
    Unbound,
)
from trioroute.policy import RULES_VERSION, decide
from trioroute.policy.decide import arrive_of
from trioroute.projections import State, apply
from trioroute.projections.digest import digest
from trioroute.replay.proof import Difference, Verified
from trioroute.replay.read import Past, decision_name

PinEvent = Bound | Spilled | Rebound | Unbound
PIN_EVENTS = (Bound, Spilled, Rebound, Unbound)


class Different(Exception):
    """A row is not what its past says it must be."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(difference)
        self.difference = difference


def decide_again(state: State, event: Dispatched, at_ms: int) -> list[Event]:
    """What today's code decides from ``state`` for the request of a recorded decision."""
    return decide(state, arrive_of(event, at_ms, state))


def made_by(event: Event, number: int) -> bool:
    """Whether ``event`` is a pin event of decision ``number``."""
    return isinstance(event, PIN_EVENTS) and event.dispatch == number


def why_different(state: State) -> str:
    """Whose fault a different decision is, after the rules that were in force then."""
    return "not deterministic" if state.rules == RULES_VERSION else "rule changed"


NOT_KNOWN = -1
"""The last decision of a router that is judged from a snapshot on: the state does not tell it."""


@attrs.frozen
class Last:
    """What is left to judge of a router's last decision, once its own pin events are there: that no
    more of them follow. ``pending`` is filled by ``TodayCheck``."""

    number: int
    dispatched: list[Event]
    again: list[Event]
    pending: Any = None


@attrs.define
class Check:
    """One router's rows, checked in order.

    ``due`` are the pin events that must come next, as decided again with decision ``number``.
    While that is NOT_KNOWN, ``early`` gathers whose pin events came.
    """

    past: Past
    result: Verified
    number: int = 0
    due: list[Event] = attrs.field(factory=list)
    dispatched: list[Event] = attrs.field(factory=list)
    again: list[Event] = attrs.field(factory=list)
    open: dict[int, None] = attrs.field(factory=dict)
    orphans_due: bool = False
    early: dict[int | None, None] = attrs.field(factory=dict)

    def take(self, record: Record, event: Event | None) -> None:
        kind, past = type(event), self.past
        if record.version != past.state.position + 1:
            past.expect(record)
        if self.orphans_due and kind is not Orphaned:
            self._ending(record, f"{_names(record.stream, self.open)} should be Orphaned here")
        if event is not None:
            if self.due or (self.number and kind in PIN_EVENTS):
                if self.number == NOT_KNOWN and isinstance(event, PIN_EVENTS):
                    self.early[event.dispatch] = None
                else:
                    self._pin_event(record, event)
            look = _LOOKS.get(kind)
            if look is not None:
                look(self, record, event)
        if event is None:
            past.fold_next(record, event)
        else:  # the same, without a call between
            apply(past.state, record.version, record.at_ms, event)
        if kind is Gap and isinstance(event, Gap) and event.state is not None:
            self.open = dict.fromkeys(past.state.load.flights)

    def _pin_event(self, record: Record, event: Event) -> None:
        """The decision's own pin events follow it at once, in the order they were decided."""
        if self.due and event == self.due[0]:
            self.dispatched.append(event)
            del self.due[0]
        elif self.due or made_by(event, self.number):
            recorded = [*self.dispatched, *([event] if made_by(event, self.number) else [])]
            self._differs(record.seq, recorded)
        if not self.due and type(event) not in PIN_EVENTS:
            self.number = 0

    def finish(self) -> None:
        """A decision and its pin events are written together: none may be missing at the end."""
        if self.due:
            self._differs(self.result.head.seq, self.dispatched)
        self.result.in_flight += len(self.open)

    @property
    def settled(self) -> bool:
        """Whether nothing is due here, and the state tells of all that is open."""
        return not (self.due or self.orphans_due) and list(self.open) == list(
            self.past.state.load.flights
        )

    def last(self) -> Last:
        return Last(self.number, self.dispatched, self.again)

    def go_on(self, last: Last) -> None:
        """Take over from the check that judged what was before, where that was ``settled``."""
        self.number = last.number
        self.dispatched, self.again = list(last.dispatched), last.again

    def conclude(self) -> None:
        """Nothing more comes of the last decision."""

    def _differs(self, seq: int, recorded: list[Event]) -> None:
        place = decision_name(self.past.stream, self.number)
        what = why_different(self.past.state)
        text = f"{place} is decided differently today ({what})"
        if what == "rule changed":
            rules = self.past.state.rules
            text += f": it was taken under rules {rules}, this release has rules {RULES_VERSION}"
        raise Different(
            Difference(
                what=what,
                place=place,
                seq=seq,
                text=text,
                recorded=tuple(recorded),
                recomputed=tuple(self.again),
            )
        )

    def decision(self, record: Record, event: Dispatched) -> None:
        self.result.decisions += 1
        self.number = record.version
        self.dispatched = [event]
        self.again = decide_again(self.past.state, event, record.at_ms)
        if not self.again or self.again[0] != event:
            self._differs(record.seq, self.dispatched)
        self.due = self.again[1:]
        self.open[record.version] = None

    def end(self, record: Record, event: Failed | Released) -> None:
        self._close(record, event.dispatch)

    def orphans(self, record: Record, event: Orphaned) -> None:
        self.orphans_due = False
        for number in event.dispatches:
            self._close(record, number)
        if self.open:
            self._ending(record, f"it leaves {_names(record.stream, self.open)} without an end")

    def _close(self, record: Record, number: int) -> None:
        if number not in self.open:
            name = decision_name(record.stream, number)
            self._ending(record, f"{name} has ended already, or never began")
        del self.open[number]

    def _ending(self, record: Record, why: str) -> None:
        place = decision_name(record.stream, record.version)
        text = f"{place} ({record.kind}) is not the one end of a dispatch: {why}"
        raise Different(Difference(what="ending", place=place, seq=record.seq, text=text))

    def started(self, record: Record, event: Started) -> None:
        self.result.restarts += record.version > 1
        self.orphans_due = bool(self.open)

    def gap(self, record: Record, event: Gap) -> None:
        self.result.gaps += 1

    def checked(self, record: Record, event: Checked) -> None:
        self.result.digests += 1
        state = self.past.state
        found = Checked(
            digest=digest(state),
            in_flight=len(state.load.flights),
            session_pins=len(state.pins.session),
            prefix_pins=len(state.pins.prefix),
        )
        if found != event:
            place = decision_name(record.stream, record.version)
            text = f"the state before {place} has another digest than the log says"
            raise Different(
                Difference(
                    what="digest",
                    place=place,
                    seq=record.seq,
                    text=text,
                    recorded=(event,),
                    recomputed=(found,),
                )
            )


def _names(stream: str, numbers: Iterable[int]) -> str:
    """A few decisions by name; the number of the rest."""
    known = list(numbers)
    named = ", ".join(decision_name(stream, number) for number in islice(known, 3))
    return named if len(known) <= 3 else f"{named} and {len(known) - 3} more"


_LOOKS: dict[type, Callable[[Check, Record, Any], None]] = {
    Dispatched: lambda check, record, event: check.decision(record, event),
    Failed: Check.end,
    Released: Check.end,
    Orphaned: Check.orphans,
    Started: Check.started,
    Gap: Check.gap,
    Checked: lambda check, record, event: check.checked(record, event),
}
