"""What came after a decision: its pin events, its end, and the request's next attempt."""

from typing import Any

import attrs

from eventlog.errors import LogDamaged
from eventlog.record import Record
from trioroute.events import (
    Dispatched,
    Event,
    Failed,
    Orphaned,
    Refused,
    Released,
    Started,
)
from trioroute.events.codec import kind_of
from trioroute.replay.check import PIN_EVENTS, PinEvent, made_by
from trioroute.replay.client import failed_words, no_end_words, refused_words, released_words
from trioroute.replay.end_words import ended_in_full
from trioroute.replay.log_end import log_end
from trioroute.replay.read import ENDINGS, Source, decision_name, quoted
from trioroute.replay.told import End, Followed
from trioroute.replay.words import pin_words


def as_fields(event: Event) -> dict[str, Any]:
    """An event as its kind and its fields."""
    kind = kind_of(event)
    fields: dict[str, Any] = kind.unstructure(event)
    return {"event": kind.name, **fields}


def end_of(event: Event, number: int, begun_ms: int, at_ms: int) -> End | None:
    """The end of dispatch ``number`` if ``event`` is one, else None."""
    after_ms = at_ms - begun_ms
    if isinstance(event, Released) and event.dispatch == number:
        return End(
            what="Released",
            at_ms=at_ms,
            after_ms=after_ms,
            outcome=event.outcome,
            cause=event.cause,
            blame=event.blame,
            status=event.status,
            ttfb_ms=event.ttfb_ms,
            duration_ms=event.duration_ms,
            bytes=event.bytes,
            prompt_tokens=event.prompt_tokens,
            completion_tokens=event.completion_tokens,
        )
    if isinstance(event, Failed) and event.dispatch == number:
        return End(
            what="Failed",
            at_ms=at_ms,
            after_ms=after_ms,
            outcome="failed",
            cause=event.cause,
            blame=event.blame,
            status=event.status,
        )
    if isinstance(event, Orphaned) and number in event.dispatches:
        what = "Unwritten" if event.ends_lost else "Orphaned"
        return End(what=what, at_ms=at_ms, after_ms=after_ms, outcome="unknown")
    return None


_TELLING = (*ENDINGS, "Bound", "Spilled", "Rebound", "Unbound", "Dispatched", "Refused", "Started")
_STARTED = '"router"'


@attrs.define
class Trail:
    """Rows after a decision, taken in order until ``over``."""

    number: int
    begun_ms: int
    request_id: str
    pin_events: list[PinEvent] = attrs.field(factory=list)
    end: End | None = None
    next_attempt: int | None = None
    refused: str | None = None
    over: bool = False
    unread: str | None = None
    """Which rows behind it cannot be read, and why, where its story may go on in them."""

    def concerns(self, record: Record) -> bool:
        """A cheap look at the bytes before a row is decoded."""
        if record.kind in ("Released", "Failed", "Bound", "Spilled", "Rebound", "Unbound"):
            return b'"dispatch":%d' % self.number in record.body
        if record.kind == "Dispatched":
            return self.end is not None and self.request_id.encode() in record.body
        if record.kind == "Refused":  # before the end where the log took nothing: log_stalled
            return self.request_id.encode() in record.body
        return record.kind in ("Orphaned", "Started")

    def take(self, record: Record, event: Event) -> None:
        if isinstance(event, PIN_EVENTS):
            if made_by(event, self.number):
                self.pin_events.append(event)
            return
        end = end_of(event, self.number, self.begun_ms, record.at_ms)
        if end is not None:
            self.end = end
            self.over = end.what != "Failed" or self.refused is not None
        elif isinstance(event, Dispatched):
            if self.number in event.earlier:
                self.next_attempt = record.version
                self.over = True
        elif isinstance(event, Refused):
            if event.request_id == self.request_id:
                self.refused = event.code
                self.over = self.end is not None
        elif isinstance(event, Started) and self.end is not None:
            self.over = True  # a failed attempt goes on in the same run or not at all

    def told(self, stream: str) -> Followed:
        name = decision_name(stream, self.next_attempt) if self.next_attempt is not None else None
        return Followed(
            pin_events=tuple(
                {**as_fields(event), "text": pin_words(event)} for event in self.pin_events
            ),
            end=self.end,
            ended=self._ended(),
            next_attempt=name,
            refused=self.refused,
            client=self._client(),
            unread=self.unread,
        )

    def _ended(self) -> str:
        if self.end is None and self.unread is not None:
            return f"not known: {self.unread}"
        return ended_in_full(self.end)

    def _client(self) -> str | None:
        """None while it waits, or if another attempt tells."""
        end = self.end
        if end is not None and end.what == "Released":
            return released_words(end.outcome, end.cause, end.blame, end.status)
        if self.refused is not None:
            return refused_words(self.refused)
        if end is None or self.next_attempt is not None:
            return None
        if end.orphaned:
            return no_end_words(end.what)
        return failed_words(end.cause, end.blame) if self.over or end.blame == "router" else None


FAR = 1 << 62


def follow(source: Source, record: Record, event: Dispatched) -> Trail:
    """Look on after the decision of ``record`` until its story is over, the log ends, or rows
    cannot be read."""
    trail = Trail(record.version, record.at_ms, event.request_id)
    texts = (str(record.version), quoted(event.request_id), _STARTED)
    reached = record.seq
    try:
        for later in source.mentioning(_TELLING, texts, reached):
            reached = later.seq
            _take(source, trail, record.stream, later)
            if trail.over:
                return trail
    except LogDamaged:
        _follow_to_damage(source, trail, record.stream, reached)
    if trail.end is None and trail.unread is None and (end := log_end(source)) is not None:
        trail.end = end.cuts(record.stream, record.at_ms)
    return trail


def _follow_to_damage(source: Source, trail: Trail, stream: str, after: int) -> None:
    """Row by row: a search gives none where one of them cannot be read, be it the last."""
    for page in source.kept_pages(after, FAR):
        if isinstance(page, tuple):
            damage = page[0]
            trail.unread = (
                f"from row {max(damage.seq, after + 1)} on it cannot be read ({damage.reason})"
            )
            return
        for later in page:
            after = later.seq
            if later.kind in _TELLING:
                _take(source, trail, stream, later)
            if trail.over:
                return


def _take(source: Source, trail: Trail, stream: str, later: Record) -> None:
    if later.stream == stream and trail.concerns(later):
        found = source.event(later)
        if found is not None:
            trail.take(later, found)
