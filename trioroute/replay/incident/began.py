"""When a replica fell silent: known only afterwards, as requests that it did not answer, or not to
the end, time out.

An engine that froze while it ran nothing is not stalled (RULES 6.10), so the first that speaks
against it is a timeout, ``timeouts.first_byte`` after the request that met it.
"""

from collections.abc import Iterator

import attrs

from eventlog.errors import LogDamaged
from eventlog.record import Record
from trioroute.events import Dispatched, Failed, Released
from trioroute.replay.clock import span
from trioroute.replay.incident.block import clock_time
from trioroute.replay.incident.told import FirstCause
from trioroute.replay.kept import dispatch_kept, event_kept, row_kept, sent_kept
from trioroute.replay.read import STREAM_PREFIX, CannotRead, Source, decision_name
from trioroute.replay.told import Line

ROWS_MAX = 30_000
"""Rows looked through for a sign of life; where it takes more, nothing is said."""

AFTER_MS = 60_000
"""So long after the timeout, answers are looked at whose first byte may have come before it."""

Place = tuple[str, int]


def began(source: Source, cause: FirstCause) -> FirstCause:
    """The cause, begun with the first request that timed out there: with its dispatch where it had
    no byte, else with its last byte, ``timeouts.idle`` before it was given up. Only if no first
    byte and no end of an answer came from there since."""
    found = _silent(source, cause) if cause.kind in ("eject", "failure") else []
    for one in found:
        if one.from_ms < cause.at_ms and not _spoke(source, one):
            return _dated(cause, one)
    return cause


@attrs.frozen
class _End:
    version: int
    at_ms: int


@attrs.frozen
class _Silent:
    """A request that timed out, sent by row ``place``; no byte came since ``from_ms``, which is not
    ``sent_ms`` where one had come before."""

    place: Place
    sent: Dispatched
    sent_ms: int
    from_ms: int
    end: _End


def _dated(cause: FirstCause, one: _Silent) -> FirstCause:
    (stream, number), sent, replica = one.place, one.sent, one.sent.replica
    name, lasted = decision_name(stream, number), span(one.end.at_ms - one.from_ms)
    if one.from_ms == one.sent_ms:
        text = (
            f"{name} ({sent.request_id}) was sent to {replica}: neither it nor any other request "
            f"got a byte from there until it timed out {lasted} later"
        )
    else:
        text = (
            f"{name} ({sent.request_id}) had its last byte from {replica} by then: no first byte "
            f"and no end of an answer came from there until it was given up {lasted} later "
            "(timeouts.idle)"
        )
    line = Line(at_ms=one.from_ms, place=name, event="Dispatched", text=text)
    began_at = f"{replica} was silent from {clock_time(one.from_ms)[11:]} on; then {cause.text}"
    return attrs.evolve(
        cause, at_ms=one.from_ms, place=name, text=began_at, evidence=(line, *cause.evidence)
    )


def _silent(source: Source, cause: FirstCause) -> list[_Silent]:
    """Of the rows that tell the cause, the timeouts; those that were silent for longest first."""
    found, idle_ms = list[_Silent](), None
    for name in (cause.place, *(line.place for line in cause.evidence)):
        router, _, version = (name or "").rpartition("/")
        stream = STREAM_PREFIX + router
        row = row_kept(source, (stream, int(version))) if version.isdigit() else None
        event = None if row is None else event_kept(source, row)
        if row is None or not isinstance(event, Released | Failed) or event.cause != "timeout":
            continue
        sent = sent_kept(source, (stream, event.dispatch))
        if event.blame != "replica" or sent is None:
            continue
        from_ms = sent[0]
        if getattr(event, "ttfb_ms", None) is not None:
            idle_ms = _idle_ms(source, row) if idle_ms is None else idle_ms
            from_ms = row.at_ms - idle_ms
        end = _End(row.version, row.at_ms)
        found.append(_Silent((stream, event.dispatch), sent[1], sent[0], from_ms, end))
    return sorted(found, key=lambda one: one.from_ms)


def _idle_ms(source: Source, row: Record) -> int:
    """How long a stream had been silent at least, as it was given up in ``row``. 0: not known."""
    try:
        past = source.past_before(row)
        if row.version - past.state.position > ROWS_MAX:
            return 0
        source.fold_before_row(past, row)
    except (CannotRead, LogDamaged):
        return 0
    return past.state.settings.timeouts.idle_ms


def _spoke(source: Source, one: _Silent) -> bool:
    """Whether a first byte, or the end of an answer, came from there in between; also where that
    takes too many rows to tell."""
    (stream, number), replica, end = one.place, one.sent.replica, one.end
    sent = dict[int, str]()
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
        if sent[event.dispatch] == replica and any(one.from_ms < ms < end.at_ms for ms in came):
            return True
    return end.version - number > ROWS_MAX


def _rows(source: Source, stream: str, number: int, end: _End) -> Iterator[tuple[int, int, object]]:
    for row in source.stream(stream, number, number + ROWS_MAX):
        if row.at_ms > end.at_ms + AFTER_MS:
            return
        if row.kind in ("Dispatched", "Released"):
            yield row.version, row.at_ms, event_kept(source, row)
