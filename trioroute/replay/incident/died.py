"""A router that died, or could not write its last rows, and was not started again: no row tells it,
but the end of the log does."""

from eventlog.unwritten import Unwritten
from trioroute.events import Orphaned
from trioroute.replay.incident.course import STALLED
from trioroute.replay.incident.down import death
from trioroute.replay.incident.evidence import cause_of, running_lines
from trioroute.replay.incident.felt import Trouble
from trioroute.replay.incident.router import Router
from trioroute.replay.log_end import CUT, LogEnd
from trioroute.replay.words import plural

DIED = "died"


def tell_death(router: Router, end: LogEnd, to_ms: int) -> None:
    """``router`` has no row after ``end.last``, and what runs there broke off."""
    at_ms, place = end.last.at_ms, router.place(end.last)
    router.phases.settle(at_ms)
    router.phases.restarted()
    flights = dict(router.traffic.flights[router.stream])
    text = end.words(None)
    why = f"{text}; {plural(len(flights), 'request')} in flight then: {CUT}" if flights else text
    line = router.story.say(at_ms, place, DIED, why)
    rows = running_lines(flights, router.stream, at_ms, DIED)
    router.story.causes.trouble(death(at_ms, line.place, why, rows))
    router.traffic.orphan(router.stream, at_ms, Orphaned(dispatches=tuple(flights)))
    router.lanes.down(at_ms, to_ms)
    router.course.turn(at_ms, DIED, f"{why}; who came since then is not in this log")


def tell_cut_short(router: Router, end: LogEnd, lost: Unwritten) -> None:
    """``router`` ended in order, and what ran may have ended well: the end is not written."""
    at_ms, place = end.last.at_ms, router.place(end.last)
    flights = tuple(router.traffic.flights[router.stream])
    text = end.words(len(flights))
    router.phases.settle(at_ms)
    router.story.say(at_ms, place, "log", text)
    router.course.turn(max(at_ms, lost.from_ms), STALLED, text)
    cause = cause_of("log", lost.from_ms, place, text)
    router.story.causes.trouble(Trouble(lost.from_ms, cause))
    router.story.note(f"{text}: what they told is not counted")
    ends = Orphaned(dispatches=flights, ends_lost=True)
    router.traffic.orphan(router.stream, at_ms, ends)
