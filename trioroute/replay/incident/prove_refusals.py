"""What would have prevented that a request was refused for want of room."""

from collections.abc import Callable, Iterator
from itertools import takewhile

import attrs

from eventlog.record import Record
from trioroute.events import Dispatched, Event, Failed, Refused
from trioroute.policy.commands import Arrive
from trioroute.policy.decide import decide
from trioroute.projections import State
from trioroute.replay.incident.changed import Change, Proof, first_that, raised
from trioroute.replay.incident.prove_line import (
    LASTS_MS,
    Folded,
    Refusal,
    Room,
    line_proof,
    unknown_proof,
)
from trioroute.replay.incident.stall import CODE
from trioroute.replay.read import Past, Source, decision_name

LINE_ROWS_MAX = 10_000
"""So many rows before a refusal, and after it, are looked at for what they tell of the line."""

AHEAD_MS = 60_000
"""How far room is looked for where nobody may wait."""

Affords = Callable[[int], bool]
"""Told how many rows are going to be read; whether that is not too many."""


def refusal_proofs(
    source: Source, affords: Affords, record: Record, event: Refused, state: State
) -> Iterator[Proof]:
    """Of the refusal in ``record``; ``state`` is that of just before it. Raises what reading
    raises."""
    place = decision_name(record.stream, record.version)
    if event.code == CODE:
        yield _log_proof(place, state)
        return
    if event.model is None:
        return  # its body could not be read, so it never came to the rules
    if event.code == "no_healthy_instances":
        text = "nobody was left to take it (RULES 4 step 5)"
        yield Proof(None, f"no setting of the router prevents that {place} was refused: {text}")
        return
    room = _room_proof(place, record.at_ms, event.model, state)
    if room is not None:
        yield room
    yield _line_proof(source, affords, record, event, state)


def _log_proof(place: str, state: State) -> Proof:
    """``log.on_failure`` is in the settings; what it does is LOG.md's."""
    refused = f"{place} was refused as the log took nothing"
    now = state.settings.log.on_failure
    if now == "serve":
        return Proof(None, f"{refused}, although log.on_failure={now} was in force")
    change = Change("log.on_failure", now, "serve")
    return Proof(change, f"{refused}: with {change.words} it would have been served unlogged")


def _line_proof(
    source: Source, affords: Affords, record: Record, event: Refused, state: State
) -> Proof:
    place, limits = decision_name(record.stream, record.version), state.settings.admission
    since_ms = record.at_ms - limits.max_wait_ms - LASTS_MS
    begin = _first_since(source, record, since_ms)
    if begin is None:
        return unknown_proof(place)
    walk = _Walk(source, source.past_before(begin), event.request_id)
    if not affords(record.version - walk.past.state.position + LINE_ROWS_MAX):
        return unknown_proof(place)
    walk.pass_by(begin.version - 1)
    before = Room(event.model or "").look(walk.rows(record.version - 1))
    until_ms = record.at_ms + (limits.max_wait_ms or AHEAD_MS)
    rows = takewhile(lambda row: row[0] <= until_ms, walk.rows(record.version + LINE_ROWS_MAX))
    after = Room(event.model or "").look(rows)
    refusal = Refusal(place, record.at_ms, retried=walk.tried)
    return line_proof(refusal, limits, before, after)


def _first_since(source: Source, record: Record, since_ms: int) -> Record | None:
    """The first row of the router since then; None where too many follow it."""
    after = source.reader.last_until(since_ms - 1)
    if record.seq - after > LINE_ROWS_MAX:
        return None
    return next(row for row in source.records(after) if row.stream == record.stream)


@attrs.define
class _Walk:
    """A router's rows, folded; ``tried``: an attempt of the request failed among them."""

    source: Source
    past: Past
    request_id: str
    tried: bool = False

    def rows(self, until: int) -> Folded:
        for row in self.source.stream(self.past.stream, self.past.state.position, until):
            event = self.source.event(row)
            if isinstance(event, Failed):
                flight = self.past.state.load.flights.get(event.dispatch)
                self.tried |= flight is not None and flight.request_id == self.request_id
            self.past.fold(row, event)
            yield row.at_ms, event, self.past.state

    def pass_by(self, until: int) -> None:
        for _ in self.rows(until):
            pass


def _room_proof(place: str, at_ms: int, model: str, state: State) -> Proof | None:
    arrive = Arrive(at_ms=at_ms, request_id="", model=model, prompt_bytes=0)
    if decide(state, arrive):
        return None  # by then there was room: how long it had waited is not in the log
    settings = state.settings
    limits = [("probing.max_in_flight", settings.probing.max_in_flight)]
    if settings.admission.max_in_flight:
        limits.insert(0, ("admission.max_in_flight", settings.admission.max_in_flight))
    for key, now in limits:
        change = first_that(state, arrive, raised(key, now), _dispatched)
        if change is not None:
            return Proof(
                change,
                f"{place} was refused as every replica that it could take was full: with "
                f"{change.words} it would have been dispatched there at the latest; how long it "
                "had waited is not in the log",
            )
    return None


def _dispatched(events: list[Event]) -> bool:
    return bool(events) and isinstance(events[0], Dispatched)
