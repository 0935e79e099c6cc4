"""What would have prevented that a request was refused for want of room."""

from collections.abc import Callable, Iterator
from itertools import takewhile

from eventlog.record import Record
from trioroute.events import Dispatched, Event, Refused
from trioroute.policy.commands import Arrive
from trioroute.policy.decide import decide
from trioroute.projections import State
from trioroute.replay.incident.changed import Change, Proof, first_that, raised
from trioroute.replay.incident.prove_line import (
    Folded,
    Refusal,
    Room,
    line_proof,
    no_line_proof,
    unknown_proof,
)
from trioroute.replay.incident.stall import CODE
from trioroute.replay.read import Past, Source, decision_name

LINE_ROWS_MAX = 10_000
"""So many rows before a refusal, and after it, are looked at for what they tell of the line."""

BEFORE_ROWS = 2000
"""So many rows before a refusal are looked at for an earlier attempt of its request."""

AHEAD_MS = 60_000
"""How far room is looked for where nobody may wait."""

Affords = Callable[[int], bool]
"""Told how many rows are going to be read; whether that is not too many."""


def refusal_proofs(
    source: Source, affords: Affords, record: Record, event: Refused, state: State
) -> Iterator[Proof]:
    """Of the refusal in ``record``; ``state`` is that of just before it. Of one for another reason
    than room, the log or replicas that are missing: nothing. Raises what reading raises."""
    place = decision_name(record.stream, record.version)
    if event.code == CODE:
        yield _log_proof(place, state)
        return
    if event.model is None:
        return  # it never came to the rules of room
    if event.code == "no_healthy_instances":
        text = "nobody was left to take it (RULES 4 step 5)"
        yield Proof(None, f"no setting of the router prevents that {place} was refused: {text}")
        return
    if event.code != "overloaded":
        return  # such as of a router that ends: no line and no number had taken it
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
    refusal = Refusal(place, record.at_ms, event)
    if not affords(2 * LINE_ROWS_MAX):
        return unknown_proof(place, "it would take too many rows to look into")
    if _tried_before(source, record, event.request_id):
        return unknown_proof(place, "it had been tried before, and may not go there again")
    if limits.max_waiting and limits.max_wait_ms:
        rows = source.stream(record.stream, record.version, record.version + LINE_ROWS_MAX)
        return line_proof(refusal, limits, ((row.at_ms, source.event(row)) for row in rows))
    past = source.past_before(record)
    source.fold_before_row(past, record)
    until_ms = record.at_ms + (limits.max_wait_ms or AHEAD_MS)
    folded = takewhile(lambda row: row[0] <= until_ms, _folded(source, past))
    return no_line_proof(refusal, limits, Room(event.model or "").look(folded))


def _tried_before(source: Source, record: Record, request_id: str) -> bool:
    """Whether the rows just before tell of an attempt of the request."""
    begin = max(0, record.version - 1 - BEFORE_ROWS)
    for row in source.stream(record.stream, begin, record.version - 1):
        event = source.event(row) if row.kind == "Dispatched" else None
        if isinstance(event, Dispatched) and event.request_id == request_id:
            return True
    return False


def _folded(source: Source, past: Past) -> Folded:
    begin = past.state.position
    for row in source.stream(past.stream, begin, begin + LINE_ROWS_MAX):
        event = source.event(row)
        past.fold(row, event)
        yield row.at_ms, event, past.state


def _room_proof(place: str, at_ms: int, model: str, state: State) -> Proof | None:
    change = room_change(at_ms, model, state)
    if change is None:
        return None  # by then there was room
    return Proof(
        change,
        f"{place} was refused as every replica that it could take was full: with "
        f"{change.words} it would have been dispatched there at the latest",
    )


def room_change(at_ms: int, model: str, state: State) -> Change | None:
    """The least number under which a request of that moment had found room; None: it did anyway, or
    no number gives it some."""
    arrive = Arrive(at_ms=at_ms, request_id="", model=model, prompt_bytes=0)
    if decide(state, arrive):
        return None
    settings = state.settings
    limits = [("probing.max_in_flight", settings.probing.max_in_flight)]
    if settings.admission.max_in_flight:
        limits.insert(0, ("admission.max_in_flight", settings.admission.max_in_flight))
    found = (first_that(state, arrive, raised(key, now), _dispatched) for key, now in limits)
    return next((change for change in found if change is not None), None)


def _dispatched(events: list[Event]) -> bool:
    return bool(events) and isinstance(events[0], Dispatched)
