"""What the log of a run that ended on a failing disk lacks: in the words of who stopped it, and in
the log itself as soon as the next run can write it."""

import logging
from collections.abc import Mapping

from eventlog.errors import EntriesLost
from eventlog.unwritten import Unwritten
from trioroute.counted import plural
from trioroute.policy import commands as c
from trioroute.router import Hole, Router

logger = logging.getLogger("trioroute")


def what_is_lost(lost: EntriesLost, hole: Hole | None) -> str:
    """``lost`` had waited in the buffer to the end. ``hole``: what a full buffer had turned away
    before (``log.on_failure = "serve"``); no ``Gap`` can tell of it any more."""
    before = ""
    if hole is not None and hole.events:
        most_first = dict(sorted(hole.kinds.items(), key=lambda one: (-one[1], one[0])))
        before = (
            f", and before them {plural(hole.events, 'event')} that the full buffer did not take "
            f"({_by_kind(most_first)})"
        )
    return (
        f"{plural(lost.count, 'event')} at the end of this run could not be written: lost "
        f"({_by_kind(lost.kinds)}){before}, for {lost.why}. The next start says so in the log "
        "(Gap), and that the ends of requests are among them. It needs room: free some, as with "
        "trioroute log prune; freed before a stop, it keeps what waits"
    )


def unwritten_of(
    lost: EntriesLost, hole: Hole | None, after: int, since_ms: int | None, now_ms: int
) -> Unwritten:
    """``after`` is the last version in the log; since when the store has failed may be unknown."""
    events, from_ms, responses = lost.count, now_ms if since_ms is None else since_ms, 0
    if hole is not None:
        events, responses = events + hole.events, hole.responses
        from_ms = min(from_ms, hole.from_ms)
    return Unwritten(after, events, from_ms, now_ms, responses)


def tell_unwritten(router: Router, unwritten: Unwritten | None) -> bool:
    """Say in the log what the last run could not, dated to its end; whether there was something.

    Word of it lies beside the log until a run wrote a row: only right behind ``after`` is it new.
    """
    if unwritten is None or unwritten.after != router.state.position:
        return False
    logger.error(
        "%s of the last %d s of the last run could not be written and are lost: the log says so "
        "(Gap); what became of requests that ran then is not known",
        plural(unwritten.events, "event"),
        max(1, (unwritten.to_ms - unwritten.from_ms) // 1000),
    )
    router.handle(
        c.Restate(
            at_ms=unwritten.to_ms,
            lost=unwritten.events,
            from_ms=unwritten.from_ms,
            to_ms=unwritten.to_ms,
            unlogged=unwritten.responses,
        )
    )
    return True


def _by_kind(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())
