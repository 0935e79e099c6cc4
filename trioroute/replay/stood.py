"""When the router itself stood still, as it measured: what one request waited then, or before it
was seen, is no replica's doing.

``incident`` tells those too that only a hole in the log proves.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

import attrs

from eventlog.errors import LogDamaged
from eventlog.record import Record
from trioroute.events import StoodStill
from trioroute.replay.clock import local_iso, span
from trioroute.replay.read import Source, decision_name
from trioroute.replay.requested import StoodStillRow
from trioroute.replay.told import Line
from trioroute.row_index import searched

SETTLE_MS = 2000
"""So long after a standstill its row is looked for: it comes among those of what had waited."""

BEHIND_MS = 1000
"""A request that is dispatched so soon after one may have come in it: nobody looked."""


@attrs.frozen
class Stood:
    from_ms: int
    to_ms: int
    place: str

    @property
    def lasted_ms(self) -> int:
        return self.to_ms - self.from_ms

    def within(self, from_ms: int, to_ms: int) -> int:
        """How much of it lies in that time."""
        return max(0, min(self.to_ms, to_ms) - max(self.from_ms, from_ms))

    def line(self) -> Line:
        text = (
            f"the router itself stood still for {span(self.lasted_ms)} up to here: what its "
            "requests waited then is no replica's doing"
        )
        return Line(at_ms=self.to_ms, place=self.place, event="StoodStill", text=text)


def stood_of(stream: str, version: int, at_ms: int, event: StoodStill) -> Stood:
    return Stood(at_ms - event.for_ms, at_ms, decision_name(stream, version))


def stood_rows(
    source: Source, after: int, until: int, stream: str | None = None
) -> Iterator[tuple[Record, StoodStill]]:
    """The rows of standstills behind row ``after``, to row ``until``, of one router or of all.
    Raises LogDamaged, CannotRead."""
    for record in searched(source.reader, ("StoodStill",), ("{",), after, until):
        event = source.event(record) if stream in (None, record.stream) else None
        if isinstance(event, StoodStill):
            yield record, event


def stood_between(source: Source, stream: str, from_ms: int, to_ms: int) -> Iterator[Stood]:
    """Those of a router that ended in that time, or went on in it."""
    with suppress(LogDamaged):  # what is asked of it is told; the damage is told by who needs it
        after = source.reader.last_until(from_ms - 1)
        until = source.reader.last_until(to_ms + SETTLE_MS)
        for record, event in stood_rows(source, after, until, stream):
            found = stood_of(stream, record.version, record.at_ms, event)
            if found.from_ms <= to_ms:
                yield found


def stood_in(source: Source, times: Iterable[tuple[str, int, int]]) -> tuple[Line, ...]:
    """All that requests met, each told by its stream, and from when to when it was under way."""
    joined = list[tuple[str, int, int]]()
    for stream, from_ms, to_ms in sorted(times):
        last = joined[-1] if joined else None
        if last is not None and last[0] == stream and from_ms <= last[2] + SETTLE_MS:
            joined[-1] = (stream, last[1], max(last[2], to_ms))
        else:
            joined.append((stream, from_ms, to_ms))
    found = dict[str, Line]()
    for stream, from_ms, to_ms in joined:
        for one in stood_between(source, stream, from_ms - BEHIND_MS, to_ms):
            found[one.place] = one.line()
    return tuple(sorted(found.values(), key=lambda line: line.at_ms))


def stood_words(source: Source, stream: str, came_ms: int, to_ms: int) -> str | None:
    """What a request that was under way in that time met, or came in; None: nothing."""
    told = list[str]()
    for one in stood_between(source, stream, came_ms - BEHIND_MS, to_ms):
        mine_ms = one.within(came_ms, to_ms)
        when = f"({local_iso(one.from_ms)[11:23]} to {local_iso(one.to_ms)[11:23]}, {one.place})"
        if mine_ms:
            told.append(
                f"the router itself stood still for {span(mine_ms)} of this time {when}, which is "
                "no replica's doing"
            )
        elif one.to_ms <= came_ms:
            told.append(
                f"it was seen {span(came_ms - one.to_ms)} after the router itself had stood still "
                f"for {span(one.lasted_ms)} {when}: if it came in that time, its client waited "
                "up to that much longer than is told"
            )
    return "; ".join(told) or None


def stood_at(source: Source, stream: str, position: int, at_ms: int) -> str | None:
    """That the router did nothing at ``at_ms``, behind row ``position``; None: it may have."""
    then = source.at(stream, position + 1)
    if then is None:
        return None
    for one in stood_between(source, stream, at_ms, then.at_ms):
        if one.from_ms <= at_ms < one.to_ms:
            return (
                f"the router itself stood still then, from {local_iso(one.from_ms)} to "
                f"{local_iso(one.to_ms)} ({one.place}): who came meanwhile was seen only after it"
            )
    return None


def listed_words(one: StoodStillRow) -> str:
    """One that is told beside a list of requests."""
    return (
        f"the router itself stood still for {span(one.for_ms)} until "
        f"{local_iso(one.at_ms)[:23]} ({one.place}): who came meanwhile waited longer than the log "
        "tells"
    )
