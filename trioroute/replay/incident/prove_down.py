"""Whether a replica that was ejected for its scrapes was down: the rows around the eject tell."""

from collections.abc import Iterable

import attrs

from eventlog.record import Record
from trioroute.events import Dispatched, Ejected, Event, Failed, Released, Scraped, ScrapeFailed
from trioroute.projections import State
from trioroute.replay.clock import span
from trioroute.replay.incident.changed import Proof
from trioroute.replay.words import plural

_WELL = frozenset({"ok", "client_error"})


@attrs.define
class _Ends:
    """How requests ended on a replica since its first failed scrape in a row. ``running``: the
    dispatches that run there."""

    running: set[int]
    failing: bool = False
    well: int = 0
    badly: int = 0

    def scraped(self, *, good: bool) -> None:
        if good or not self.failing:
            self.well = self.badly = 0
        self.failing = not good

    def ended(self, event: Failed | Released) -> None:
        if event.dispatch not in self.running:
            return
        self.running.discard(event.dispatch)
        if isinstance(event, Released) and event.outcome in _WELL:
            self.well += 1
        elif event.blame == "replica":
            self.badly += 1


def down_proof(
    proof: Proof,
    eject: Record,
    event: Ejected,
    state: State,
    around: Iterable[tuple[Record, Event | None]],
) -> Proof | None:
    """Instead of ``proof``, which names a setting: None that lets a replica live whose scrapes
    went on failing after the ``eject``, and whether it was down. ``around``: the rows before and
    after that one, ``state`` that of before it. None where the next scrape was good, or none is
    among the rows."""
    name, flights = event.replica, state.load.flights.items()
    ends = _Ends({number for number, flight in flights if flight.replica == name})
    for record, row in around:
        match row:
            case Dispatched() if row.replica == name:
                ends.running.add(record.version)
            case Failed() | Released():
                ends.ended(row)
            case Scraped() if name in row.readings or name in row.same:
                if record.version > eject.version:
                    return None
                ends.scraped(good=True)
            case ScrapeFailed() if row.replica == name:
                if record.version > eject.version:
                    return _told(proof, name, ends, row, record.at_ms - eject.at_ms)
                ends.scraped(good=False)
    return None


def _told(proof: Proof, name: str, ends: _Ends, later: ScrapeFailed, after_ms: int) -> Proof:
    assert proof.change is not None
    words, shown = proof.change.words, f"its next scrape failed too ({later.cause})"
    shown = f"{shown}, {span(after_ms)} later"
    if not ends.well:
        why = f"it was really down, {shown}; {words} would only have left it in traffic for longer"
    else:
        badly = f"{ends.badly} badly" if ends.badly else "none badly"
        served = f"{plural(ends.well, 'request')} ended well there since the first failed scrape"
        why = (
            f"{shown}, though {served}, {badly}; {words} would only have put it off: mend what "
            "answers its scrapes"
        )
    return Proof(None, f"no setting of the router prevents that {name} was ejected: {why}")
