"""Requests through all their attempts, up to what their clients got: for lists of requests."""

from collections import OrderedDict
from collections.abc import Collection

import attrs

from eventlog.record import Record
from trioroute.events import Dispatched, Event, Failed, Orphaned, Refused, Released
from trioroute.replay.client import failed_words, no_end_words, refused_words, released_words
from trioroute.replay.followed import end_of
from trioroute.replay.incident.hurt import SERVICE
from trioroute.replay.incident.stall import CODE
from trioroute.replay.log_end import LogEnd
from trioroute.replay.pace import in_one_piece
from trioroute.replay.plain import size_of
from trioroute.replay.read import decision_name
from trioroute.replay.requested import Delay, RequestRow
from trioroute.replay.told import End
from trioroute.replay.usual import NOTHING, Usuals
from trioroute.replay.words import NOT_FAILED

ROWS_MAX = 200
"""Lines of an answer; what else was found is counted."""

NAMES_MAX = 1000
"""Names of one sort that are remembered, to tell the nearest to a wrong one."""
WAITING_MAX = 10_000
"""Requests whose attempt failed and that may be tried again; the oldest ones are over."""

DELAYED = "delayed"

_WELL = {*NOT_FAILED, "running"}
_OF_REQUEST = ("model", "key", "session")
_OF_ATTEMPT = ("replica", "reason")

Place = tuple[str, int]
"""Stream and number of a dispatch."""


@attrs.frozen
class Wanted:
    """What requests are chosen by; ``sessions`` are the digests of the session that is meant.
    ``usuals`` say which are delayed."""

    where: dict[str, str]
    sessions: Collection[str]
    usuals: Usuals = NOTHING

    @property
    def attempts(self) -> bool:
        """Whether each attempt is told, and not each request once."""
        return "attempt" in self.where

    def differs(self, row: RequestRow, fields: Collection[str]) -> str | None:
        """The first of ``fields`` in which a row is not as asked for."""
        for name in fields:
            wanted = self.where.get(name)
            found = getattr(row, name)
            meant = name == "session" and found in self.sessions
            if wanted is not None and wanted != found and not meant:
                return name
        return None

    def ends(self, name: str, outcome: str, refused: str | None = None) -> bool:
        """Whether an ``outcome`` is as asked for by ``name``, outcome or attempt; a refusal with
        the code ``refused`` is a failure where the service is to blame."""
        wanted = self.where.get(name, "any")
        if wanted == "failed" and refused is not None:
            return refused in SERVICE
        return wanted in ("any", outcome) or (wanted == "failed" and outcome not in _WELL)


@attrs.define
class _Life:
    """A request: its attempts in order, and its refusal if it came to that. ``chosen`` holds
    whether each attempt is as asked for. It came at ``came_ms``, with a prompt of a ``size``, and
    stood in line for ``waited_ms`` before its last attempt."""

    request_id: str
    came_ms: int
    size: int
    rows: list[RequestRow]
    chosen: list[bool]
    waited_ms: int = 0
    refused: str | None = None


@attrs.define
class Lives:
    """Takes rows in order. ``open`` are those that run or may be tried again, by the place of their
    last attempt. ``seen``: what other names there were, by field."""

    wanted: Wanted
    to_ms: int
    rows: list[RequestRow] = attrs.field(factory=list)
    left_out: int = 0
    open: dict[Place, _Life] = attrs.field(factory=dict)
    waiting: OrderedDict[Place, None] = attrs.field(factory=OrderedDict)
    seen: dict[str, dict[str, None]] = attrs.field(factory=dict)

    def concerns(self, record: Record) -> bool:
        """A cheap look at a row behind the span: it begins nothing new."""
        if record.kind != "Dispatched":
            return True
        return b'"earlier":[' in record.body and b'"earlier":[]' not in record.body

    def take(self, record: Record, event: Event | None) -> None:
        if isinstance(event, Dispatched):
            self._dispatched(record, event)
        elif isinstance(event, Refused):
            self._refused(record, event)
        elif isinstance(event, Released | Failed):
            self._ended(record, event, event.dispatch)
        elif isinstance(event, Orphaned):
            for number in event.dispatches:
                self._ended(record, event, number)

    def _dispatched(self, record: Record, event: Dispatched) -> None:
        place = (record.stream, record.version)
        row = RequestRow(
            at_ms=record.at_ms,
            request_id=event.request_id,
            decision=decision_name(*place),
            model=event.model,
            key=event.key,
            session=event.session,
            replica=event.replica,
            reason=event.reason,
            attempt=event.attempt,
            tried=tuple(event.tried),
            outcome="running",
        )
        before = (record.stream, event.earlier[-1]) if event.earlier else None
        life = self.open.pop(before, None) if before is not None else None
        if before is not None:
            self.waiting.pop(before, None)
        if life is None:
            if record.at_ms > self.to_ms or self._other(row, _OF_REQUEST):
                return
            came_ms, size = record.at_ms - event.waited_ms, size_of(event.prompt_bytes)
            life = _Life(event.request_id, came_ms, size, [], [])
        life.waited_ms = event.waited_ms
        life.rows.append(row)
        life.chosen.append(not self._other(row, _OF_ATTEMPT))
        self.open[place] = life

    def _other(self, row: RequestRow, fields: Collection[str]) -> bool:
        """Whether it is not as asked for; what it is instead is kept in mind."""
        name = self.wanted.differs(row, fields)
        if name is None:
            return False
        found, names = getattr(row, name), self.seen.setdefault(name, {})
        if found is not None and len(names) < NAMES_MAX:
            names[found] = None
        return True

    def _refused(self, record: Record, event: Refused) -> None:
        place = self._place_of(record.stream, event)
        if place is not None:
            life = self.open[place]
            life.refused = event.code
            if place in self.waiting:
                self._over(place)
            return
        row = RequestRow(
            at_ms=record.at_ms,
            request_id=event.request_id,
            decision=None,
            model=event.model,
            key=event.key,
            session=None,
            replica=None,
            reason=event.code,
            attempt=None,
            outcome="refused",
            client=refused_words(event.code),
        )
        if record.at_ms > self.to_ms or self.wanted.attempts:
            return
        other = self._other(row, (*_OF_REQUEST, *_OF_ATTEMPT))
        if not other and self.wanted.ends("outcome", "refused", event.code):
            self._keep(row)

    def _place_of(self, stream: str, event: Refused) -> Place | None:
        """The last attempt of the request that is refused: failed, or with a log that takes
        nothing, still running."""
        for place in reversed(self.waiting):
            if place[0] == stream and self.open[place].request_id == event.request_id:
                return place
        if event.code != CODE:
            return None
        for place, life in reversed(self.open.items()):
            if place[0] == stream and life.request_id == event.request_id and not life.refused:
                return place
        return None

    def _ended(self, record: Record, event: Event, number: int) -> None:
        place = (record.stream, number)
        life = self.open.get(place)
        if life is None:
            return
        last = life.rows[-1]
        end = end_of(event, number, last.at_ms, record.at_ms)
        assert end is not None
        life.rows[-1] = attrs.evolve(last, end=end, outcome=end.outcome)
        if isinstance(event, Failed) and life.refused is None:
            self.waiting[place] = None
            if len(self.waiting) > WAITING_MAX:
                self._over(next(iter(self.waiting)))
        else:
            self._over(place)

    def _over(self, place: Place) -> None:
        """Nothing more comes of a request."""
        self.waiting.pop(place, None)
        life = self.open.pop(place)
        outcome, client = _got(life)
        if self.wanted.where.get("outcome") == DELAYED:
            delay = _delay(life, outcome, self.wanted.usuals)
            if delay is None:
                return
            life.rows[-1] = attrs.evolve(life.rows[-1], delay=delay)
        elif not self.wanted.ends("outcome", outcome, life.refused):
            return
        if self.wanted.attempts:
            for row, chosen in zip(life.rows, life.chosen, strict=True):
                in_span = row.at_ms <= self.to_ms
                if chosen and in_span and self.wanted.ends("attempt", row.outcome):
                    self._keep(
                        row if row is not life.rows[-1] else attrs.evolve(row, client=client)
                    )
        elif any(life.chosen) or life.refused == self.wanted.where.get("reason", ""):
            self._keep(attrs.evolve(life.rows[-1], outcome=outcome, client=client))

    def _keep(self, row: RequestRow) -> None:
        wanted = self.wanted.where.get("status")
        if wanted is not None and wanted != _status(row):
            return
        if len(self.rows) < ROWS_MAX:
            self.rows.append(row)
        else:
            self.left_out += 1

    def cut(self, log: LogEnd) -> None:
        """Nothing more comes of what runs: its router died."""
        for place in [place for place in self.open if place not in self.waiting]:
            rows = self.open[place].rows
            if (end := log.cuts(place[0], rows[-1].at_ms)) is not None:
                rows[-1] = attrs.evolve(rows[-1], end=end, outcome=end.outcome)
                self._over(place)

    def finish(self) -> None:
        """No more rows come."""
        for place in list(self.open):
            self._over(place)
        self.rows.sort(key=lambda row: row.at_ms)


def _got(life: _Life) -> tuple[str, str | None]:
    """How a request ended, and what its client got; None while it runs."""
    last = life.rows[-1]
    if life.refused is not None:
        return "refused", refused_words(life.refused)
    end = last.end
    return last.outcome, None if end is None else _client(end)


def _delay(life: _Life, outcome: str, usuals: Usuals) -> Delay | None:
    """What its client waited for a first byte, or until it left, if that was long."""
    last = life.rows[-1]
    end = last.end
    if end is None or end.duration_ms is None or outcome not in NOT_FAILED:
        return None
    if end.ttfb_ms is None and outcome != "client_gone":
        return None
    return usuals.delay_of(
        last.model,
        life.size,
        last.at_ms - life.came_ms,
        end.ttfb_ms,
        end.duration_ms,
        whole=in_one_piece(end.ttfb_ms, end.duration_ms, end.completion_tokens),
        waited_ms=life.waited_ms,
    )


def _status(row: RequestRow) -> str | None:
    """The HTTP status that its client got, or of an attempt that of its replica; None: none."""
    if row.client is not None and (first := row.client[:3]).isdigit():
        return first
    return None if row.end is None or row.end.status is None else str(row.end.status)


def _client(end: End) -> str:
    if end.orphaned:
        return no_end_words(end.what)
    if end.what == "Failed":
        return failed_words(end.cause, end.blame)
    return released_words(end.outcome, end.cause, end.blame, end.status)
