"""The time between a router that stopped in order and the next one, in which nobody listened."""

from trioroute.replay.clock import span
from trioroute.replay.incident.evidence import cause_of
from trioroute.replay.incident.told import FirstCause
from trioroute.replay.told import Line

DOWN_MS = 5000
"""So long, a client that tries again for some seconds is lost, and it is told as a cause."""


def down_cause(stopped_ms: int, started: Line) -> FirstCause:
    """``started`` is the line of the start that ended it."""
    long = span(started.at_ms - stopped_ms)
    text = f"for {long} nobody listened: the router had stopped; who came is not in the log"
    return cause_of("down", stopped_ms, started.place, text, (started,))
