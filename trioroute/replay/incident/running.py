"""The requests that run when a span begins."""

from collections.abc import Iterator

import attrs

from trioroute.events import Refused, Started
from trioroute.projections import State
from trioroute.replay.incident.stall import CODE
from trioroute.replay.kept import dispatch_kept, event_kept
from trioroute.replay.plain import Send, send_of
from trioroute.replay.read import Source
from trioroute.row_index import searched

KEYS_MAX = 2000
"""Dispatches that are read for the name of their key."""

STEP_ROWS = 50_000
"""So many rows before the span are looked at for the router's start at a time."""

REFUSED_ROWS = 2000
"""So many rows before the span are looked at for who was refused while its attempt ran on."""


@attrs.frozen
class Running:
    """``refused``: its client was told so before the span, and only its attempt's end is to come.
    The key and the size of the prompt in ``send`` are None where the row of the dispatch is not
    there to be read; ``waited_ms`` and ``earlier`` are of that row."""

    number: int
    send: Send
    request_id: str
    refused: bool
    waited_ms: int = 0
    earlier: tuple[int, ...] = ()


def running_of(source: Source, first: int, stream: str, state: State) -> Iterator[Running]:
    """Those of one router after row ``first``."""
    flights = state.load.flights
    refused = _refused_before(source, first, stream) if flights else frozenset[str]()
    for place, (number, flight) in enumerate(flights.items()):
        event = dispatch_kept(source, (stream, number)) if place < KEYS_MAX else None
        gone, name = flight.request_id in refused, flight.request_id
        if event is None:
            yield Running(number, (flight.replica, (flight.model, None), "", None), name, gone)
        else:
            yield Running(number, send_of(event), name, gone, event.waited_ms, event.earlier)


def release_before(source: Source, first: int, stream: str, state: State) -> str | None:
    """The release that wrote row ``first``, behind which a router's state is ``state``; None where
    its start is not among the rows kept.

    A router puts settings in force as it starts: rows after the last time it did need no look.
    """
    found, until = None, _configured_until(source, first, stream, state.configured_ms)
    while found is None and until > 0:
        after = max(0, until - STEP_ROWS)
        for record in searched(source.reader, ("Started",), ('"router"',), after, until):
            event = event_kept(source, record) if record.stream == stream else None
            found = event.release if isinstance(event, Started) else found
        until = after
    return found


def _configured_until(source: Source, first: int, stream: str, at_ms: int) -> int:
    """The last row of the time when settings were put in force, ``first`` if that is not where the
    log says so: as where the clock was set back."""
    until = min(first, source.reader.last_until(at_ms))
    rows = searched(source.reader, ("Configured",), ("{",), max(0, until - STEP_ROWS), until)
    return until if any(row.stream == stream and row.at_ms == at_ms for row in rows) else first


def _refused_before(source: Source, first: int, stream: str) -> frozenset[str]:
    found = set[str]()
    for record in source.kept(max(0, first - REFUSED_ROWS), first, lambda _: None):
        if record.kind == "Refused" and record.stream == stream:
            event = event_kept(source, record)
            if isinstance(event, Refused) and event.code == CODE:
                found.add(event.request_id)
    return frozenset(found)
