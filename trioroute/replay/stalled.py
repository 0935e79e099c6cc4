"""When one replica was stalled (RULES 6.10), as its scrapes tell it: no event says so."""

import attrs

from eventlog.errors import LogDamaged
from eventlog.record import Record
from trioroute.events import Event, Scraped
from trioroute.projections import Stalls, State, apply
from trioroute.replay.read import CannotRead, Past, Source, decision_name
from trioroute.replay.told import Line

KINDS = ("Started", "Configured", "ReplicaJoined", "ReplicaLeft", "Scraped", "Gap")


def states_before(source: Source, after: int) -> dict[str, State]:
    """The state of each router after row ``after``; none where the log does not tell it."""
    if not after:
        return {}
    fold = source.fold_before(after + 1)
    pasts = {stream: Past(stream, state) for stream, state in fold.states.items()}
    try:
        source.fold_rows(pasts, fold.head.seq, after)
    except (CannotRead, LogDamaged):
        return {}
    return {stream: past.state for stream, past in pasts.items()}


@attrs.define
class StalledOf:
    """``states`` are of the rows before, by router; of the others only what this replica needs."""

    replica: str
    states: dict[str, State]
    stalls: dict[str, Stalls] = attrs.field(factory=dict)

    def concerns(self, record: Record) -> bool:
        """A cheap look at the bytes."""
        if record.kind not in KINDS:
            return False
        return record.kind != "Scraped" or self.replica.encode() in record.body

    def take(self, record: Record, event: Event) -> Line | None:
        """What the row changed, if anything."""
        stalls, name = self.stalls.get(record.stream), self.replica
        state = self.states.setdefault(record.stream, State())
        if stalls is None:
            stalls = self.stalls[record.stream] = Stalls()
            stalls.look(state)
        if isinstance(event, Scraped):
            readings = {name: event.readings[name]} if name in event.readings else {}
            event = Scraped(readings=readings, same=(name,) if name in event.same else ())
        apply(state, record.version, record.at_ms, event)
        for stall in stalls.look(state):
            if stall.replica == name:
                place = decision_name(record.stream, record.version)
                return Line(at_ms=record.at_ms, place=place, event="stall", text=stall.words())
        return None
