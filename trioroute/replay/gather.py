"""Plain rows, gathered from pages of a log.

Bodies are read by the codec's own fast readers. What such a reader does not take, or has another
schema, is no plain row: then ``decode`` says what it is.
"""

from array import array
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from eventlog.bare import Even, joined
from eventlog.record import Record
from trioroute.events.codec import KINDS
from trioroute.events.flat import NotFlat
from trioroute.replay.calendar import LAST_MS
from trioroute.replay.pace import pace_of
from trioroute.replay.plain import (
    UNKNOWN,
    Dispatches,
    Ends,
    PinFate,
    PinRows,
    Run,
    Send,
    size_of,
)


def plain_runs(pages: Iterable[Even]) -> list[Run | Record]:
    """The same rows in the same order, the plain ones gathered. A Record of them has no chain.

    One loop without calls but the readers', for others were a quarter of its time. Kind by kind it
    would be slower: all events of a page are too many for a processor's cache.
    """
    runs, senders = list[Run | Record](), _Senders()
    codes, readers, run, to_ms = senders.codes, _READERS, _Open("", 0, 0, 0), 0
    begun, ids, ended, pins = run.begun, run.ids, run.ended, run.pins
    for page in joined(pages):
        stream, version, ahead = page.stream, page.version - 1, page.seq - page.version
        for kind, schema, at_ms, body in page.rows:
            version += 1
            known, read = readers.get(kind, _NO_READER)
            try:
                event: Any = read(body) if schema == known and 0 <= at_ms <= LAST_MS else None
            except NotFlat:
                event = None
            if kind == "Released":
                plain = event is not None and event.status == 200 and event.outcome == "ok"
                plain = plain and event.cause == event.blame == "none" and event.dispatch < version
            elif kind == "Dispatched":
                plain = event is not None and event.attempt == 1 and event.reason != "fallback"
                plain = plain and not (event.tried or event.earlier or event.waited_ms)
            else:
                plain = event is not None
            if not plain:
                run.close(runs, version - 1, to_ms, senders)
                seq = version + ahead
                runs.append(Record(seq, stream, version, kind, schema, at_ms, 0, body, b""))
                continue
            if not run.first or at_ms < to_ms:
                run.close(runs, version - 1, to_ms, senders)
                run = _Open(stream, version + ahead, version, at_ms)
                begun, ids, ended, pins = run.begun, run.ids, run.ended, run.pins
            to_ms = at_ms
            if kind == "Released":
                ttfb = UNKNOWN if event.ttfb_ms is None else event.ttfb_ms
                ended += (version, at_ms, event.dispatch, ttfb, event.duration_ms, pace_of(event))
            elif kind == "Dispatched":
                way, bits = event.reason, event.prompt_bytes.bit_length()
                code = codes.get((event.replica, event.model, event.key, way, bits))
                begun += (version, at_ms, senders.code_of(event) if code is None else code)
                ids.append(event.request_id)
            elif (fate := (kind, event.kind, event.cause)) in pins:
                pins[fate] += (version, at_ms, event.dispatch)
            else:
                pins[fate] = [version, at_ms, event.dispatch]
        run.close(runs, version, to_ms, senders)
    return runs


@attrs.define
class _Senders:
    """The ways in which the dispatches of a part were sent, each with its code."""

    sends: list[Send] = attrs.field(factory=list)
    codes: dict[tuple[str, str, str | None, str, int], int] = attrs.field(factory=dict)

    def code_of(self, event: Any) -> int:  # noqa: ANN401 - a body as the codec's fast reader gives it
        bits = event.prompt_bytes.bit_length()
        way = (event.replica, event.model, event.key, event.reason, bits)
        self.codes[way] = len(self.sends)
        size = size_of(event.prompt_bytes)
        self.sends.append((event.replica, (event.model, event.key), event.reason, size))
        return self.codes[way]


@attrs.define
class _Open:
    """A run that is gathered, its cells row by row; ``first`` is 0 where none is."""

    stream: str
    seq: int
    first: int
    from_ms: int
    begun: list[int] = attrs.field(factory=list)
    ids: list[str] = attrs.field(factory=list)
    ended: list[int] = attrs.field(factory=list)
    pins: dict[PinFate, list[int | None]] = attrs.field(factory=dict)

    def close(self, runs: list[Run | Record], last: int, to_ms: int, senders: _Senders) -> None:
        """No row follows; version ``last`` is of the last one."""
        if not self.first:
            return
        numbers, times, codes = _columns(self.begun, 3)
        run = Run(
            self.stream,
            self.seq,
            self.first,
            last,
            self.from_ms,
            to_ms,
            senders.sends,
            Dispatches(numbers, times, codes, self.ids),
            Ends(*_columns(self.ended, 6)),
            {fate: _pins(cells) for fate, cells in self.pins.items()},
        )
        runs.append(run)
        self.first = 0


def _columns(cells: list[int], width: int) -> "list[array[int]]":
    whole = array("q", cells)
    return [whole[at::width] for at in range(width)]


def _pins(cells: list[Any]) -> PinRows:
    made = [number for number in cells[2::3] if number is not None]
    versions, times = array("q", cells[0::3]), array("q", cells[1::3])
    return PinRows(versions, times, len(made), made[0] if made else None)


def _reader(kind: str) -> tuple[int, Callable[[bytes], Any]]:
    known = KINDS[kind]
    assert known.read is not None, kind
    return known.schema, known.read


def _none(_: bytes) -> None:
    """What is read of a kind that is never plain."""


_PLAIN = ("Dispatched", "Released", "Bound", "Spilled", "Rebound", "Unbound")
_READERS = {kind: _reader(kind) for kind in _PLAIN}
_NO_READER = (0, _none)
