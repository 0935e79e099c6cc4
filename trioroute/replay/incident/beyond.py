"""What a span's end hides: only the first row behind it tells that its router was gone by then.

A router that died, stopped or stood still writes nothing, so a span that ends meanwhile has no row
of it.
"""

from eventlog.record import Record
from trioroute.events import Orphaned
from trioroute.replay.incident import down
from trioroute.replay.incident.block import clock_time
from trioroute.replay.incident.evidence import running_lines
from trioroute.replay.incident.router import Router
from trioroute.replay.read import Source, decision_name
from trioroute.replay.told import Line
from trioroute.replay.words import plural

RESTART = "restart"


def look_beyond(source: Source, router: Router, to_ms: int) -> None:
    """Raises what reading raises."""
    then = source.at(router.stream, router.state.position + 1)
    if then is None or not router.last_ms or not router.last_ms < to_ms < then.at_ms:
        return
    if then.kind != "Started":
        router.standstills.look(then.version, router.last_ms, then.at_ms, to_ms)
    elif router.before is not None:
        _gone(router, then, to_ms)


def _gone(router: Router, started: Record, to_ms: int) -> None:
    """From its last row on: it ``started`` again only behind the span."""
    last_ms, place = router.last_ms, decision_name(router.stream, router.state.position)
    died = router.before is None or not down.ended_in_order(router.before)
    again = f"started again at {clock_time(started.at_ms)}, after this span"
    router.phases.settle(last_ms)
    router.phases.restarted()
    if died:
        flights = dict(router.traffic.flights[router.stream])
        ran = f"; {plural(len(flights), 'request')} had no end" if flights else ""
        text = f"the router died at or after {clock_time(last_ms)} and {again}{ran}"
        rows = running_lines(flights, router.stream, last_ms, "died")
        router.story.causes.trouble(down.death(last_ms, place, text, rows))
        router.traffic.orphan(router.stream, last_ms, Orphaned(dispatches=tuple(flights)))
    else:
        text = f"the router had stopped, and {again}"
        line = Line(at_ms=started.at_ms, place=router.place(started), event=started.kind, text=text)
        if to_ms - last_ms >= down.DOWN_MS and router.story.down is None:
            router.story.down = down.down_cause(last_ms, line)
    router.story.say(last_ms, place, RESTART, text)
    from_ms = max(last_ms, router.traffic.from_ms)
    router.lanes.down(from_ms, to_ms)
    why = down.silence_words(from_ms, started.at_ms, died=died)
    router.course.turn(from_ms, RESTART, f"{text}; {why}")
