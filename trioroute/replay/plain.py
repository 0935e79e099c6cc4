"""Rows of the usual forms, gathered: for who counts many of them.

Nearly all rows of a log are requests that came and ended well, and what became of pins. Of each
only what is counted is kept, in one array for a field: that takes a quarter of the time of making
an event of each, and a process hands them to another one as a few pieces of memory.
"""

from array import array
from collections.abc import Iterator
from heapq import merge

import attrs

from trioroute.events import Dispatched

Who = tuple[str | None, str | None]
"""Model and name of the API key."""

Send = tuple[str, Who, str, int | None]
"""How a dispatch was sent: replica, who, reason, and the size of its prompt (``usual.size_of``)."""


def send_of(event: Dispatched) -> Send:
    who, size = (event.model, event.key), size_of(event.prompt_bytes)
    return event.replica, who, event.reason, size


Sent = tuple[int, int, Send, str]
"""A first dispatch: version, ``at_ms``, how it was sent, request id."""

Ended = tuple[int, int, int, int | None, int, int]
"""A good answer that speaks against nobody: version, ``at_ms``, dispatch, the times to first byte
and of the whole answer in milliseconds, and its pace (``pace_of``)."""

Flight = tuple[Send, str]
"""What runs: how it was sent, and the request's id."""

PinFate = tuple[str, str, str]
"""Kind of the row, kind of the pin, and the cause."""

SMALLEST = 6
"""Prompts below 4 KiB are of one size; then each size is four times the one before."""


def size_of(prompt_bytes: int) -> int:
    """The size of a prompt: its bytes are fewer than 4 to the power of it."""
    return max(SMALLEST, (prompt_bytes.bit_length() + 1) // 2)


UNKNOWN = -(1 << 63)
"""The time to first byte where the row tells none."""


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
class Dispatches:
    """First dispatches in order: numbers, ``at_ms``, which one of the ``sends`` of their run, and
    request ids."""

    numbers: "array[int]" = attrs.field(factory=_numbers)
    times: "array[int]" = attrs.field(factory=_numbers)
    codes: "array[int]" = attrs.field(factory=_numbers)
    ids: list[str] = attrs.field(factory=list)


@attrs.define
class Ends:
    """Good answers that speak against nobody, in order: versions, ``at_ms``, dispatches, all of
    them of rows before, the milliseconds to first byte (UNKNOWN: not told) and in all, and paces
    (``pace_of``)."""

    versions: "array[int]" = attrs.field(factory=_numbers)
    times: "array[int]" = attrs.field(factory=_numbers)
    dispatches: "array[int]" = attrs.field(factory=_numbers)
    ttfb: "array[int]" = attrs.field(factory=_numbers)
    took: "array[int]" = attrs.field(factory=_numbers)
    paces: "array[int]" = attrs.field(factory=_numbers)

    def columns(self) -> "tuple[array[int], ...]":
        return self.versions, self.times, self.dispatches, self.ttfb, self.took, self.paces


@attrs.define
class Run:
    """Plain rows that follow each other in the log and in their stream; time does not run back.

    ``first`` and ``last`` are versions, ``seq`` is that of ``first``. ``sends`` is common to the
    runs of a part.
    """

    stream: str
    seq: int
    first: int
    last: int
    from_ms: int
    to_ms: int
    sends: list[Send]
    begun: Dispatches
    ended: Ends
    pins: dict[PinFate, PinRows] = attrs.field(factory=dict)

    def moves(self) -> Iterator[Sent | Ended]:
        """Dispatches and ends in order, one by one."""
        return merge(self._sent(), self._ended())

    def _sent(self) -> Iterator[Sent]:
        begun, sends = self.begun, self.sends
        rows = zip(begun.numbers, begun.times, begun.codes, begun.ids, strict=True)
        for number, at_ms, code, request_id in rows:
            yield number, at_ms, sends[code], request_id

    def _ended(self) -> Iterator[Ended]:
        for version, at_ms, dispatch, ttfb, took, pace in zip(*self.ended.columns(), strict=True):
            yield version, at_ms, dispatch, None if ttfb == UNKNOWN else ttfb, took, pace
