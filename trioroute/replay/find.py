"""Decisions by number, by request and by age; hints where there is none."""

import re
from collections import deque

import attrs

from eventlog.record import Record
from trioroute.events import Dispatched, Failed, Orphaned, Refused, Released
from trioroute.replay.clock import local_iso
from trioroute.replay.followed import end_of
from trioroute.replay.log_end import log_end
from trioroute.replay.names import listed, request_hint, routers_of
from trioroute.replay.read import (
    STREAM_PREFIX,
    BadQuestion,
    NotFound,
    Source,
    decision_name,
    quoted,
    router_of,
)
from trioroute.replay.told import DecisionRow
from trioroute.row_index import REQUEST, request_word, rows_with

HINT_ROWS = 5000
SHORT = 0.5
"""How alike names of two signs must be: r2 and r1 are half alike."""
"""How far from a number that is no decision the nearest ones are looked for."""

REQUEST_ATTEMPTS_MAX = 50
"""A client may use an id again and again; the last decisions of it are told."""


class OnlyRefused(NotFound):
    """The request was never dispatched: ``rows`` are its refusals, the last one at the end."""

    def __init__(self, text: str, rows: tuple[Record, ...]) -> None:
        super().__init__(text)
        self.rows = rows


_DECISION = re.compile(r"(?:(?P<router>[^/]+)/)?(?P<number>[0-9]{1,18})\Z")
_STEP = 200


def parse_decision(source: Source, text: str) -> tuple[str, int]:
    """Stream and number of ``r1/42``, or of ``42`` in the router that wrote last.

    Raises BadQuestion, NotFound for an empty log.
    """
    found = _DECISION.match(text)
    if found is None:
        raise BadQuestion(f"{text!r} is not a decision: write ROUTER/NUMBER, such as r1/42")
    router = found["router"]
    stream = STREAM_PREFIX + router if router is not None else source.last().stream
    return stream, int(found["number"])


def dispatch_at(source: Source, stream: str, number: int) -> Record:
    """The row of a decision. Raises NotFound, saying what is there instead and what is near."""
    record = source.at(stream, number)
    if record is not None and record.kind == "Dispatched":
        return record
    last = source.reader.stream_version(stream)
    if last == 0:
        raise no_router(source, stream)
    first = source.reader.read_stream(stream, 0, 1)[0].version
    text = f"the log holds {decision_name(stream, first)} to {decision_name(stream, last)}"
    if number < first:
        text += "; older events were retired"
    if record is not None:
        text += f"; {decision_name(stream, number)} is {_what(source, record)}, not a decision"
    near = _nearest(source, stream, min(max(number, first), last + 1))
    if len(near) == 2:
        text += f"; the nearest decisions are {near[0]} and {near[1]}"
    elif near:
        text += f"; the nearest decision is {near[0]}"
    else:
        text += f"; no decision is within {HINT_ROWS} rows of it"
    raise NotFound(text)


def no_router(source: Source, stream: str) -> NotFound:
    """That no router of this name wrote the log, with those that did and the nearest."""
    name, names = router_of(stream), routers_of(source)
    return NotFound(
        f"the log has no router {name!r}; {listed('its routers are', names, name, cutoff=SHORT)}"
    )


def _what(source: Source, record: Record) -> str:
    article = "an" if record.kind[0] in "AEIOU" else "a"
    event = source.event(record)
    if isinstance(event, Released | Failed):
        return f"{article} {record.kind} of {decision_name(record.stream, event.dispatch)}"
    return f"{article} {record.kind}"


def _nearest(source: Source, stream: str, number: int) -> list[str]:
    """The decisions just before and just after row ``number``."""
    near: list[str] = []
    top = number - 1
    while top > 0 and number - top <= HINT_ROWS and not near:
        bottom = max(0, top - _STEP)
        rows = list(source.stream(stream, bottom, top))
        near = [decision_name(stream, r.version) for r in rows if r.kind == "Dispatched"][-1:]
        top = bottom
    for record in source.stream(stream, number, number + HINT_ROWS):
        if record.kind == "Dispatched":
            near.append(decision_name(stream, record.version))
            break
    return near


def numbers_of_request(source: Source, request_id: str) -> dict[str, list[int]]:
    """The decisions of a request, by stream; its last ones if they are very many.

    Raises NotFound; OnlyRefused for a request that was refused without a decision.
    """
    found: deque[tuple[str, int]] = deque(maxlen=REQUEST_ATTEMPTS_MAX)
    refused: deque[Record] = deque(maxlen=REQUEST_ATTEMPTS_MAX)
    code = ""
    words = {request_word(request_id): quoted(request_id)}
    for record in rows_with(source.reader, source.index, REQUEST, words):
        event = source.event(record)
        if isinstance(event, Dispatched) and event.request_id == request_id:
            found.append((record.stream, record.version))
        elif isinstance(event, Refused) and event.request_id == request_id:
            refused.append(record)
            code = event.code
    if not found:
        if refused:
            said = f"it was refused, {code} at {local_iso(refused[-1].at_ms)}"
            text = f"request {request_id!r} was never dispatched: {said}"
            raise OnlyRefused(text, tuple(refused))
        raise NotFound(
            f"no decision of request {request_id!r} is in the log; an id that is not "
            "[A-Za-z0-9._:-]{1,128} was replaced by the one in x-request-id"
            + request_hint(source, request_id)
        )
    by_stream: dict[str, list[int]] = {}
    for stream, number in found:
        by_stream.setdefault(stream, []).append(number)
    return by_stream


@attrs.define
class Rows:
    """The last ``most`` decisions taken in, each with its end once that has come by."""

    most: int
    rows: deque[DecisionRow] = attrs.field(factory=deque)
    open: dict[tuple[str, int], DecisionRow] = attrs.field(factory=dict)
    left_out: int = 0

    def add(self, record: Record, event: Dispatched) -> None:
        row = DecisionRow(
            decision=decision_name(record.stream, record.version),
            at_ms=record.at_ms,
            request_id=event.request_id,
            model=event.model,
            weight_m=event.weight_m,
            replica=event.replica,
            reason=event.reason,
            attempt=event.attempt,
        )
        self.rows.append(row)
        self.open[record.stream, record.version] = row
        if len(self.rows) > self.most:
            self.left_out += 1
            dropped = self.rows.popleft().decision.rpartition("/")
            self.open.pop((STREAM_PREFIX + dropped[0], int(dropped[2])), None)

    def end(self, record: Record, event: Released | Failed | Orphaned) -> None:
        ended = event.dispatches if isinstance(event, Orphaned) else (event.dispatch,)
        for number in ended:
            row = self.open.pop((record.stream, number), None)
            if row is not None:
                row.end = end_of(event, number, row.at_ms, record.at_ms)

    def cut(self, source: Source) -> None:
        """All rows were taken: what has no end has none in the log."""
        end = log_end(source) if self.open else None
        if end is not None:
            for (stream, _), row in self.open.items():
                row.end = end.cuts(stream, row.at_ms)

    def take(self, source: Source, record: Record) -> None:
        if record.kind in ("Dispatched", "Released", "Failed", "Orphaned"):
            event = source.event(record)
            if isinstance(event, Dispatched):
                self.add(record, event)
            elif isinstance(event, Released | Failed | Orphaned):
                self.end(record, event)


def last_decisions(source: Source, most: int) -> list[DecisionRow]:
    """The last ``most`` decisions of the log, oldest first.

    Reads backwards, only as far as needed.
    """
    head = source.reader.head().seq
    window = 8 * most + _STEP
    while True:
        after = max(0, head - window)
        found = Rows(most)
        for record in source.records(after, head):
            found.take(source, record)
        if len(found.rows) == most or after == 0:
            found.cut(source)
            return list(found.rows)
        window *= 4
