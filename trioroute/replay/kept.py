"""Single rows by their place, as far as they are there to be read: None for one that is not.

A page that can be read in order may still lead a search for one row astray, so the place where
rows are read in order does not tell of it: the source remembers it.
"""

from eventlog.errors import LogDamaged
from eventlog.record import Record
from trioroute.events import Dispatched, Event
from trioroute.replay.read import CannotRead, Source
from trioroute.replay.words import plural

UNFOUND_MAX = 1000
"""So many are remembered."""


def row_kept(source: Source, place: tuple[str, int]) -> Record | None:
    """A row by its stream and number."""
    try:
        return source.at(*place)
    except LogDamaged as damage:
        not_found(source, damage)
        return None


def not_found(source: Source, damage: LogDamaged) -> None:
    """Remember what an answer goes without, once, however often it was looked for."""
    if len(source.unfound) < UNFOUND_MAX:
        source.unfound[damage.where, damage.seq, damage.reason] = damage


def unfound_words(source: Source) -> tuple[str, ...]:
    """What the answer that was worked out goes without; empty for nothing."""
    if not source.unfound:
        return ()
    first, count = source.unfound[min(source.unfound)], len(source.unfound)
    most = " or more" if count == UNFOUND_MAX else ""
    rows = f"{plural(count, 'row')}{most} {'was' if count == 1 else 'were'}"
    said = f"{rows} looked for in vain ({first.reason}, in {first.where})"
    return (f"{said}: what they told is missing here; trioroute log verify tells what is damaged",)


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
