"""How a log ends whose router did not stop in order: that it died, or only that this is not known.

A router's last row is ``Stopped``. Where it is another one, the router runs, or it died and was not
started again, or what is read is a copy: the writer's lock tells the first two apart, and a copy
has none.
"""

import attrs

from eventlog.errors import LogDamaged
from eventlog.ownership import Writer, cut_short, writer_of
from eventlog.record import Record
from eventlog.unwritten import Unwritten
from trioroute.counted import plural
from trioroute.replay.clock import local_iso, span
from trioroute.replay.read import CannotRead, NotFound, Past, Source
from trioroute.replay.told import End

FOLD_ROWS = 200_000
"""So many rows are folded at most to tell how many requests were in flight."""

CUT = "how they ended is not in the log: their clients got a broken connection"


@attrs.frozen
class LogEnd:
    """``last`` is the last row, and no ``Stopped``. ``died``: it is proved that nobody writes this
    log any more; else it may be a copy, or may be written on another machine. ``unwritten``: it
    ended in order, but could not write the last of it."""

    last: Record
    died: bool
    unwritten: Unwritten | None = None

    @property
    def at(self) -> str:
        return local_iso(self.last.at_ms)

    def until_ms(self, now_ms: int) -> int:
        """Until when it is known that nothing else was written."""
        if self.unwritten is not None:
            return max(self.last.at_ms, self.unwritten.to_ms)
        return max(self.last.at_ms, now_ms) if self.died else self.last.at_ms

    def words(self, in_flight: int | None) -> str:
        """``in_flight``: requests without an end, None: not known."""
        counted = "" if in_flight is None else f"; {plural(in_flight, 'request')} in flight then"
        if self.unwritten is not None:
            return self._cut_short(self.unwritten, counted, in_flight)
        if self.died:
            cut = f"{counted}: {CUT}" if in_flight else counted
            return f"no router writes this log: it died at or after {self.at}{cut}"
        return (
            f"the log ends at {self.at} without the row of a stop{counted}: this is a copy, or was "
            "written on another machine or before this one started anew, so whether its router "
            "still runs is not known here; if it does not, it died at or after that time, and what "
            "was in flight broke off"
        )

    def _cut_short(self, lost: Unwritten, counted: str, in_flight: int | None) -> str:
        unknown = ": what their clients got is not known" if in_flight else ""
        return (
            f"the log ends at {self.at}: its router ended in order at {local_iso(lost.to_ms)}, but "
            f"could not write the last {span(max(0, lost.to_ms - lost.from_ms))} of it "
            f"({plural(lost.events, 'event')} lost), which the next start says in the log (Gap)"
            f"{counted}{unknown}"
        )

    def cuts(self, stream: str, begun_ms: int) -> End | None:
        """The end of a request that this router had in flight; None where it may still run."""
        if not self.died or stream != self.last.stream:
            return None
        after_ms = max(0, self.last.at_ms - begun_ms)
        return End(what="Died", at_ms=self.last.at_ms, after_ms=after_ms, outcome="unknown")


def log_end(source: Source) -> LogEnd | None:
    """None for a log whose router runs or stopped in order, for an empty one, and for one that is
    read from no place of a router's. One that was closed in order without the row of a stop, as
    ``log archive`` leaves what it copied, is a copy."""
    if source.directory is None:
        return None
    try:
        last = source.last()
    except (NotFound, LogDamaged):
        return None
    if last.kind == "Stopped":
        return None
    writer: Writer = writer_of(source.directory)  # after the row: a router may start in between
    if writer == "writing":
        return None
    return LogEnd(last, writer == "gone", cut_short(source.directory))


def in_flight_at(source: Source, end: LogEnd) -> int | None:
    """Requests that its router had in flight; None where that is too far to tell, or damaged."""
    try:
        fold = source.fold_before(end.last.seq + 1)
        if end.last.seq - fold.head.seq > FOLD_ROWS:
            return None
        pasts = {stream: Past(stream, state) for stream, state in fold.states.items()}
        source.fold_rows(pasts, fold.head.seq, end.last.seq)
    except (CannotRead, LogDamaged):
        return None
    return len(pasts[end.last.stream].state.load.flights)


def end_words(source: Source) -> str:
    """What to say of the end of the log; empty where there is nothing to say."""
    end = log_end(source)
    return "" if end is None else end.words(in_flight_at(source, end))
