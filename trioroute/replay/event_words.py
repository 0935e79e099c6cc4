"""Any event as one line: for walking through a log, and for watching it grow."""

from trioroute import events as e
from trioroute.events.codec import kind_of
from trioroute.events.sections import InForce
from trioroute.replay.clock import span
from trioroute.replay.end_words import end_words
from trioroute.replay.read import decision_name
from trioroute.replay.words import NOT_FAILED, gap_words, health_words, pin_words, plural
from trioroute.settings.changed import configured_words

STALLED = (
    "the event log took nothing within log.gate_wait: see its disk; the process log names the error"
)


def event_words(event: e.Event, at_ms: int, stream: str, before: InForce | None = None) -> str:
    """What happened, in one line. Names of the log stand in it as they are. ``before`` are the
    settings in force until a ``Configured``, None: they are not known."""
    health = health_words(event, at_ms)
    if health is not None:
        return f"{getattr(event, 'replica', '')}: {health}"
    match event:
        case e.Bound() | e.Spilled() | e.Rebound() | e.Unbound():
            return pin_words(event)
        case e.Dispatched() | e.Failed() | e.Released() | e.Refused() | e.Orphaned():
            return _request_words(event, stream)
        case e.Scraped():
            return _scraped(event)
        case e.Started():
            behind = f", its clock {span(event.behind_ms)} back" if event.behind_ms else ""
            return f"the router started, release {event.release}, rules {event.rules}{behind}"
        case e.Stopped():
            return f"the router stopped: {event.cause}"
        case e.Configured():
            return _configured(event, before)
        case e.Checked():
            return f"digest of the state, {event.in_flight} in flight"
        case e.StoodStill():
            return f"the router itself had stood still for {span(event.for_ms)}"
        case e.Gap():
            return gap_words(event)
        case _:
            return kind_of(event).name


def _configured(event: e.Configured, before: InForce | None) -> str:
    told = None if before is None else configured_words(before, event, again=True)
    if told is not None:
        return told
    same = ", as before" if event.settings == before else ""
    return f"settings in force{same}, by {event.by}" + (f": {event.why}" if event.why else "")


def _request_words(
    event: e.Dispatched | e.Failed | e.Released | e.Refused | e.Orphaned, stream: str
) -> str:
    match event:
        case e.Dispatched():
            again = f", attempt {event.attempt}" if event.attempt > 1 else ""
            return f"{event.request_id} ({event.model}) to {event.replica}, {event.reason}{again}"
        case e.Failed():
            words = end_words("failed", event.cause, event.blame, event.status)
            return f"{decision_name(stream, event.dispatch)} {words}"
        case e.Released():
            words = end_words(event.outcome, event.cause, event.blame, event.status)
            first = f", first byte after {span(event.ttfb_ms)}" if event.ttfb_ms is not None else ""
            ended = f"{decision_name(stream, event.dispatch)} ended: {words}"
            return f"{ended}{first}, took {span(event.duration_ms)}"
        case e.Refused():
            why = f", {STALLED}" if event.code == "log_stalled" else ""
            return f"{event.request_id} refused: {event.code}{why}"
        case e.Orphaned():
            why = "it is lost with the last events" if event.ends_lost else "the router died"
            return f"{plural(len(event.dispatches), 'request')} had no end: {why}"


def _scraped(event: e.Scraped) -> str:
    told = [
        f"{name} {reading.running}+{reading.waiting}" if reading.running is not None else name
        for name, reading in event.readings.items()
    ]
    same = f"{plural(len(event.same), 'replica')} as before" if event.same else ""
    return f"scraped: {', '.join([*told, *([same] if same else [])])}"


def is_error(event: e.Event) -> bool:
    """A failed attempt, a request that a client saw fail, or one that was refused."""
    if isinstance(event, e.Released):
        return event.outcome not in NOT_FAILED
    return isinstance(event, e.Failed | e.Refused | e.Orphaned)
