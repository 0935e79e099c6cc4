"""Single rows by their place, as far as they are there to be read: None for one that is not."""

from eventlog.errors import LogDamaged
from eventlog.record import Record
from trioroute.events import Dispatched, Event
from trioroute.replay.read import CannotRead, Source


def row_kept(source: Source, place: tuple[str, int]) -> Record | None:
    """A row by its stream and number."""
    try:
        return source.at(*place)
    except LogDamaged:
        return None


def sent_kept(source: Source, place: tuple[str, int]) -> tuple[int, Dispatched] | None:
    """When a decision was taken, and the decision, by its stream and number."""
    record = row_kept(source, place)
    event = None if record is None else event_kept(source, record)
    return (record.at_ms, event) if record is not None and isinstance(event, Dispatched) else None


def dispatch_kept(source: Source, place: tuple[str, int]) -> Dispatched | None:
    """A decision by its stream and number."""
    sent = sent_kept(source, place)
    return None if sent is None else sent[1]


def event_kept(source: Source, record: Record) -> Event | None:
    try:
        return source.event(record)
    except CannotRead:
        return None  # told where the rows of a question are folded
