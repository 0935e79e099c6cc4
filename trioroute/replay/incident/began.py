"""When a replica fell silent: known only afterwards, as requests that it never answered time out.

An engine that froze while it ran nothing is not stalled (RULES 6.10), so the first that speaks
against it is a timeout, ``timeouts.first_byte`` after the request that met it.
"""

from collections.abc import Iterator

import attrs

from trioroute.events import Dispatched, Failed, Released
from trioroute.replay.clock import span
from trioroute.replay.incident.block import clock_time
from trioroute.replay.incident.told import FirstCause
from trioroute.replay.kept import dispatch_kept, event_kept, row_kept, sent_kept
from trioroute.replay.read import STREAM_PREFIX, Source, decision_name
from trioroute.replay.told import Line

ROWS_MAX = 30_000
"""Rows looked through for a sign of life; where it takes more, nothing is said."""

AFTER_MS = 60_000
"""So long after the timeout, answers are looked at whose first byte may have come before it."""

Place = tuple[str, int]


def began(source: Source, cause: FirstCause) -> FirstCause:
    """The cause, begun with the dispatch of the first request that timed out there without a byte,
    if no byte of any came from there in between."""
    found = None if cause.kind not in ("eject", "failure") else _first_silent(source, cause)
    if found is None:
        return cause
    (stream, number), sent, sent_ms, end = found
    if sent_ms >= cause.at_ms or _spoke(source, (stream, number), sent.replica, sent_ms, end):
        return cause
    name = decision_name(stream, number)
    text = (
        f"{name} ({sent.request_id}) was sent to {sent.replica}: neither it nor any other request "
        f"got a byte from there until it timed out {span(end.at_ms - sent_ms)} later"
    )
    line = Line(at_ms=sent_ms, place=name, event="Dispatched", text=text)
    began_at = f"{sent.replica} was silent from {clock_time(sent_ms)[11:]} on; then {cause.text}"
    return attrs.evolve(
        cause, at_ms=sent_ms, place=name, text=began_at, evidence=(line, *cause.evidence)
    )


@attrs.frozen
class _End:
    version: int
    at_ms: int


def _first_silent(source: Source, cause: FirstCause) -> tuple[Place, Dispatched, int, _End] | None:
    """Of the rows that tell the cause, the timeout without a byte that was sent first."""
    found = list[tuple[Place, Dispatched, int, _End]]()
    for name in (cause.place, *(line.place for line in cause.evidence)):
        router, _, version = (name or "").rpartition("/")
        stream = STREAM_PREFIX + router
        row = row_kept(source, (stream, int(version))) if version.isdigit() else None
        event = None if row is None else event_kept(source, row)
        if row is None or not isinstance(event, Released | Failed) or event.cause != "timeout":
            continue
        if event.blame != "replica" or getattr(event, "ttfb_ms", None) is not None:
            continue
        place = (stream, event.dispatch)
        sent = sent_kept(source, place)
        if sent is not None:
            sent_ms, dispatch = sent
            found.append((place, dispatch, sent_ms, _End(row.version, row.at_ms)))
    return min(found, key=lambda one: one[2], default=None)


def _spoke(source: Source, begin: Place, replica: str, sent_ms: int, end: _End) -> bool:
    """Whether a first byte, or the end of an answer, came from there in between; also where that
    takes too many rows to tell."""
    (stream, number), sent = begin, dict[int, str]()
    for version, at_ms, event in _rows(source, stream, number, end):
        if isinstance(event, Dispatched):
            sent[version] = event.replica
        if not isinstance(event, Released) or event.ttfb_ms is None:
            continue
        if event.dispatch not in sent:
            known = dispatch_kept(source, (stream, event.dispatch))
            sent[event.dispatch] = "" if known is None else known.replica
        first_ms = at_ms - event.duration_ms + event.ttfb_ms
        came = (first_ms, *((at_ms,) if event.outcome == "ok" else ()))
        if sent[event.dispatch] == replica and any(sent_ms < ms < end.at_ms for ms in came):
            return True
    return end.version - number > ROWS_MAX


def _rows(source: Source, stream: str, number: int, end: _End) -> Iterator[tuple[int, int, object]]:
    for row in source.stream(stream, number, number + ROWS_MAX):
        if row.at_ms > end.at_ms + AFTER_MS:
            return
        if row.kind in ("Dispatched", "Released"):
            yield row.version, row.at_ms, event_kept(source, row)
