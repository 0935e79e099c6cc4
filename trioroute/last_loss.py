"""What the log of a run that ended on a failing disk lacks, in the words of who stopped it."""

from eventlog.errors import EntriesLost
from trioroute.counted import plural
from trioroute.router import Hole


def what_is_lost(lost: EntriesLost, hole: Hole | None) -> str:
    """``lost`` had waited in the buffer to the end. ``hole``: what a full buffer had turned away
    before (``log.on_failure = "serve"``); no ``Gap`` can tell of it any more."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in lost.kinds.items())
    before = ""
    if hole is not None and hole.events:
        before = (
            f", and before them {plural(hole.events, 'event')} that the full buffer did not take"
        )
    return (
        f"{plural(lost.count, 'event')} at the end of this run could not be written: lost "
        f"({kinds}){before}, for {lost.why}. Replay will tell of this end as of a crash: the "
        "router died and started again, and requests whose Released is lost have no end. The next "
        "start needs room: free some, as with trioroute log prune; freed before a stop, it keeps "
        "what waits"
    )
