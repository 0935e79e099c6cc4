"""Rows of the usual forms, gathered: for who counts many of them.

Nearly all rows of a log are requests that came and ended well, and what became of pins. They are
read by the codec's own fast readers, and of each only what is counted is kept, in one array for a
field: that takes a quarter of the time of making an event of each, and a process hands them to
another one as a few pieces of memory. What such a reader does not take, or has another schema, is
no plain row: then ``decode`` says what it is.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from eventlog.bare import Bare
from eventlog.record import Record
from trioroute.events.codec import KINDS
from trioroute.events.flat import NotFlat

Who = tuple[str | None, str | None]
"""Model and name of the API key."""

Send = tuple[str, Who, str]
"""How a dispatch was sent: replica, who, reason."""

Sent = tuple[int, int, str, Who, str, str]
"""A first dispatch: version, ``at_ms``, replica, who, request id, reason."""

Ended = tuple[int, int, int, int | None, int]
"""A good answer that speaks against nobody: version, ``at_ms``, dispatch, and the times to first
byte and of the whole answer in milliseconds."""

PinFate = tuple[str, str, str]
"""Kind of the row, kind of the pin, and the cause."""

END = -1
"""The code of an end."""

UNKNOWN = -(1 << 63)
"""The time to first byte where the row tells none."""

WIDTH = 6
"""Cells of a move."""

CODE, DISPATCH = 0, 3
"""The cells that tell which of ``sends`` it is, and which dispatch began or ended."""


def _numbers() -> "array[int]":
    return array("q")


@attrs.define
class PinRows:
    """Rows of one fate: their versions and times in order, how many of them name their dispatch,
    and the first dispatch named."""

    versions: "array[int]" = attrs.field(factory=_numbers)
    times: "array[int]" = attrs.field(factory=_numbers)
    made: int = 0
    first_made: int | None = None


@attrs.define
class Run:
    """Plain rows that follow each other in the log and in their stream; time does not run back.

    ``first`` and ``last`` are versions, ``seq`` is that of ``first``. ``cells`` holds the moves,
    which are first dispatches and good ends, in order, ``WIDTH`` cells each: which one of ``sends``
    (or END), version, ``at_ms``, the dispatch that began or ended, and of an end the two times.
    ``ids`` are the request ids of the dispatches. ``sends`` is common to the runs of a part.
    """

    stream: str
    seq: int
    first: int
    from_ms: int
    sends: list[Send]
    last: int = 0
    to_ms: int = 0
    cells: "array[int]" = attrs.field(factory=_numbers)
    ids: list[str] = attrs.field(factory=list)
    pins: dict[PinFate, PinRows] = attrs.field(factory=dict)

    def columns(self) -> "list[array[int]]":
        """The moves as ``WIDTH`` arrays."""
        return [self.cells[at::WIDTH] for at in range(WIDTH)]

    def moves(self) -> Iterator[Sent | Ended]:
        """The moves one by one."""
        ids, sends = iter(self.ids), self.sends
        for code, version, at_ms, dispatch, ttfb, lasted in zip(*self.columns(), strict=True):
            if code == END:
                yield version, at_ms, dispatch, None if ttfb == UNKNOWN else ttfb, lasted
            else:
                replica, who, reason = sends[code]
                yield version, at_ms, replica, who, next(ids), reason


def plain_runs(rows: Iterable[Bare]) -> list[Run | Record]:
    """The same rows in the same order, the plain ones gathered. A Record of them has no chain.

    One loop without calls, for calls were a quarter of its time.
    """
    runs: list[Run | Record] = []
    sends, codes = list[Send](), dict[tuple[str, str, str | None, str], int]()
    current, following, to_ms = "", -1, 0
    cells, ids, pins = list[int](), list[str](), dict[PinFate, _Pins]()
    for seq, stream, version, kind, schema, at_ms, body in rows:
        known, read = _READERS.get(kind, _NO_READER)
        try:
            event: Any = read(body) if schema == known else None
        except NotFlat:
            event = None
        if event is None or not (
            _ended_well(event) if kind == "Released" else kind != "Dispatched" or _is_first(event)
        ):
            following = _end(runs, following, to_ms, cells, pins)
            runs.append(Record(seq, stream, version, kind, schema, at_ms, 0, body, b""))
            continue
        if version != following or at_ms < to_ms or stream != current:
            _end(runs, following, to_ms, cells, pins)
            cells, ids, pins = [], [], {}
            runs.append(Run(stream, seq, version, at_ms, sends, ids=ids))
            current = stream
        following, to_ms = version + 1, at_ms
        if kind == "Released":
            ttfb = UNKNOWN if event.ttfb_ms is None else event.ttfb_ms
            cells += (END, version, at_ms, event.dispatch, ttfb, event.duration_ms)
        elif kind == "Dispatched":
            send = (event.replica, event.model, event.key, event.reason)
            code = codes.get(send)
            if code is None:
                code = codes[send] = len(sends)
                sends.append((event.replica, (event.model, event.key), event.reason))
            cells += (code, version, at_ms, version, 0, 0)
            ids.append(event.request_id)
        else:
            rows_of = pins.get((kind, event.kind, event.cause)) or pins.setdefault(
                (kind, event.kind, event.cause), ([], [], [])
            )
            rows_of[0].append(version)
            rows_of[1].append(at_ms)
            rows_of[2].append(event.dispatch)
    _end(runs, following, to_ms, cells, pins)
    return runs


_Pins = tuple[list[int], list[int], list[int | None]]
"""Versions, times and dispatches."""


def _end(
    runs: list[Run | Record],
    following: int,
    to_ms: int,
    cells: list[int],
    pins: dict[PinFate, _Pins],
) -> int:
    """Complete the last run, if one is open (``following`` is not -1); no row follows."""
    run = runs[-1] if runs and following != -1 else None
    if isinstance(run, Run):
        run.last, run.to_ms, run.cells = following - 1, to_ms, array("q", cells)
        for fate, (versions, times, dispatches) in pins.items():
            made = [number for number in dispatches if number is not None]
            run.pins[fate] = PinRows(
                array("q", versions), array("q", times), len(made), made[0] if made else None
            )
    return -1


def _reader(kind: str) -> tuple[int, Callable[[bytes], Any]]:
    known = KINDS[kind]
    assert known.read is not None, kind
    return known.schema, known.read


def _none(_: bytes) -> None:
    """What is read of a kind that is never plain."""


_PLAIN = ("Dispatched", "Released", "Bound", "Spilled", "Rebound", "Unbound")
_READERS = {kind: _reader(kind) for kind in _PLAIN}
_NO_READER = (0, _none)


def _is_first(event: Any) -> bool:  # noqa: ANN401 - a body as the codec's fast reader gives it
    again = event.attempt != 1 or event.tried or event.earlier
    return not again and bool(event.reason != "fallback")


def _ended_well(event: Any) -> bool:  # noqa: ANN401 - as above
    well = event.status == 200 and event.outcome == "ok"
    return bool(well and event.cause == "none" and event.blame == "none")
