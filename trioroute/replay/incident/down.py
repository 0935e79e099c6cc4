"""The time between a router and the next one, in which nobody listened, in words and as a cause."""

from eventlog.record import Record
from trioroute.events import Event, Gap, Orphaned, Started, Stopped
from trioroute.replay.clock import local_iso, span
from trioroute.replay.incident.block import clock_time
from trioroute.replay.incident.evidence import cause_of
from trioroute.replay.incident.felt import Trouble
from trioroute.replay.incident.told import FirstCause
from trioroute.replay.told import Line
from trioroute.replay.words import plural

DOWN_MS = 5000
"""So long, a client that tries again for some seconds is lost, and it is told as a cause."""


def down_cause(stopped_ms: int, started: Line) -> FirstCause:
    """``started`` is the line of the start that ended it."""
    long = span(started.at_ms - stopped_ms)
    text = f"for {long} nobody listened: the router had stopped; who came is not in the log"
    return cause_of("down", stopped_ms, started.place, text, (started,))


def death(at_ms: int, place: str, text: str, evidence: tuple[Line, ...] = ()) -> Trouble:
    """``at_ms`` is the router's last row: it died then or later, and ``place`` tells of it."""
    return Trouble(at_ms, cause_of("died", at_ms, place, text, evidence))


def ended_in_order(last: Event) -> bool:
    """Whether a run whose ``last`` row is this did not die. What it could not write at its end
    stands in a ``Gap`` behind it."""
    return isinstance(last, Stopped) or (isinstance(last, Gap) and last.lost > 0)


def started_words(event: Started, at_ms: int, last_ms: int, *, died: bool) -> str:
    """``last_ms`` is the last row of the run before, 0: not known."""
    text = f"the router {'died and ' if died else ''}started again, release {event.release}"
    return f"{text}, {span(max(0, at_ms - last_ms))} after its last row" if last_ms else text


def stopped_words(last: Record, asked_ms: int) -> str:
    """Where a span reaches the ``last`` row of the log, and was asked for until ``asked_ms``."""
    if last.kind != "Stopped" or asked_ms - last.at_ms < DOWN_MS:
        return ""
    said = f"the router stopped at {local_iso(last.at_ms)} and did not start again"
    return f"{said} in this log: who came later is not in it"


def silence_words(from_ms: int, to_ms: int, *, died: bool) -> str:
    long, how = span(max(0, to_ms - from_ms)), "killed" if died else "stopped"
    return f"for {long} nobody listened ({how}): who came then is not in this log"


def orphaned_words(event: Orphaned, silent_ms: int) -> str:
    """``silent_ms`` as ``last_ms`` of ``started_words``."""
    lost = plural(len(event.dispatches), "request")
    if event.ends_lost:
        return (
            f"{lost} had no end: it is lost with the last events of the run before, and whether "
            "clients got all of their answers is not known"
        )
    text = f"{lost} had no end: the router died under them"
    between = f", between its last row at {clock_time(silent_ms)} and this start"
    return text + between if silent_ms else text
