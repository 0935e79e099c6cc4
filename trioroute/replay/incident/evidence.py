"""What speaks against each replica since it was last fine: the evidence of an eject."""

from collections import deque
from collections.abc import Mapping
from itertools import islice

import attrs

from trioroute.events import Event, Failed, Released, Scraped, ScrapeFailed
from trioroute.projections import State
from trioroute.replay.end_words import ended_words
from trioroute.replay.incident.lanes import lane_state
from trioroute.replay.incident.told import FirstCause
from trioroute.replay.plain import Flight
from trioroute.replay.read import decision_name
from trioroute.replay.told import Line
from trioroute.replay.words import health_words

MOST = 6
"""Rows kept of each kind for each replica, the last ones."""

RUNNING_MAX = 12
"""Requests that are told of all that ran."""

LOADS_MAX = 12
"""Replicas whose load is told; of a greater fleet the first that joined."""


@attrs.define
class _Against:
    scrapes: deque[Line] = attrs.field(factory=lambda: deque(maxlen=MOST))
    requests: deque[Line] = attrs.field(factory=lambda: deque(maxlen=MOST))


@attrs.define
class Evidence:
    against: dict[str, _Against] = attrs.field(factory=dict)

    def scraped(self, event: Scraped) -> None:
        """A good scrape ends a row of failed ones."""
        if self.against:
            for name in (*event.readings, *event.same):
                if name in self.against:
                    self.against[name].scrapes.clear()

    def scrape_failed(self, at_ms: int, place: str, event: ScrapeFailed) -> None:
        text = f"{event.replica}: {health_words(event, at_ms)}"
        line = Line(at_ms=at_ms, place=place, event="ScrapeFailed", text=text)
        self.against.setdefault(event.replica, _Against()).scrapes.append(line)

    def ended(self, at_ms: int, place: str, replica: str, event: Failed | Released) -> None:
        """An end held against its replica speaks against it; a proper answer ends a row."""
        if event.blame == "replica":
            name = f"{place.partition('/')[0]}/{event.dispatch}"
            text = f"request {name} on {replica}: {ended_words(event, 'it')}"
            line = Line(at_ms=at_ms, place=place, event=type(event).__name__, text=text)
            self.against.setdefault(replica, _Against()).requests.append(line)
        elif isinstance(event, Released) and event.outcome in ("ok", "client_error"):
            self.fine(replica)

    def fine(self, replica: str) -> None:
        """It gave a proper answer."""
        if replica in self.against:
            self.against[replica].requests.clear()

    def forget(self, replica: str) -> None:
        """What was held against it has led to its eject, and that is over."""
        self.against.pop(replica, None)

    def held(self) -> set[str]:
        """The replicas that some request is held against."""
        return {name for name, one in self.against.items() if one.requests}

    def of(self, replica: str) -> tuple[Line, ...]:
        found = self.against.get(replica)
        if found is None:
            return ()
        return tuple(sorted((*found.scrapes, *found.requests), key=lambda line: line.at_ms))

    def of_event(self, event: Event) -> tuple[Line, ...]:
        name = getattr(event, "replica", None)
        return self.of(name) if isinstance(name, str) else ()


def cause_of(
    kind: str, at_ms: int, place: str, text: str, evidence: tuple[Line, ...] = ()
) -> FirstCause:
    return FirstCause(kind=kind, text=text, at_ms=at_ms, place=place or None, evidence=evidence)


def running_lines(
    flights: Mapping[int, Flight], stream: str, at_ms: int, event: str
) -> tuple[Line, ...]:
    """What a router had in flight as something befell it."""
    return tuple(
        Line(
            at_ms=at_ms,
            place=decision_name(stream, number),
            event=event,
            text=f"{request_id} ran on {replica}",
        )
        for number, ((replica, *_), request_id) in islice(flights.items(), RUNNING_MAX)
    )


def loads_of(
    state: State,
    in_flight: Mapping[str, int],
    at_ms: int,
    place: str,
    model: str | None = None,
) -> tuple[Line, ...]:
    """What each replica was and ran at a moment: the evidence of a shortage. ``model``: only those
    of its pool, if it has any."""
    pool = [one.name for one in state.fleet.pool(model)] if model is not None else []
    lines = []
    for name in (pool or list(state.fleet.replicas))[:LOADS_MAX]:
        last = state.load.of(name).last
        own = f"{in_flight.get(name, 0)} of this router's in flight"
        known = last is not None and last.running is not None
        scraped = f"{last.running} running, {last.waiting or 0} waiting" if last and known else ""
        text = f"{name} {', '.join(one for one in (lane_state(state, name), scraped, own) if one)}"
        lines.append(Line(at_ms=at_ms, place=place, event="load", text=text))
    return tuple(lines)
