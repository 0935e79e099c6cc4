"""Rows of the usual forms, read by their text alone: for who counts many of them.

Nearly all rows of a log are requests that came and ended well, and what became of pins. Their
bodies have one form each, derived here from the event classes, so what does not fit to the last
sign (another schema, an escape, a sign beyond ASCII, a field of another type) is no plain row: then
``decode`` says what it is. This takes a quarter of the time of decoding.
"""

import re
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import attrs

from eventlog.record import Record
from trioroute.events import Bound, Dispatched, Event, Rebound, Released, Spilled, Unbound
from trioroute.events.codec import KINDS

Who = tuple[str | None, str | None]
"""Model and name of the API key."""

Sent = tuple[int, int, str, Who, str, str]
"""A first dispatch: version, ``at_ms``, replica, who, request id, reason."""

Ended = tuple[int, int, int, int | None, int]
"""A good answer that speaks against nobody: version, ``at_ms``, dispatch, and the times to first
byte and of the whole answer in milliseconds."""

PinRow = tuple[int, int, int | None]
"""Version, ``at_ms``, dispatch."""

PinFate = tuple[str, str, str]
"""Kind of the row, kind of the pin, and the cause."""


@attrs.define
class Run:
    """Plain rows that follow each other in the log and in their stream; time does not run back.

    ``first`` and ``last`` are versions, ``seq`` is that of ``first``. ``moves`` are in order, and
    so are the rows of each fate of a pin.
    """

    stream: str
    seq: int
    first: int
    from_ms: int
    last: int
    to_ms: int
    moves: list[Sent | Ended] = attrs.field(factory=list)
    pins: dict[PinFate, list[PinRow]] = attrs.field(factory=dict)


Bare = tuple[int, str, int, str, int, int, str]
"""A row as ``SqliteReader.read_bare`` gives it."""

_TEXT = r"[ !#-\[\]-~]*"
_NUMBER = r"(?:0|-?[1-9][0-9]{0,18})"


def _value(kind: Any, *, caught: bool) -> str:  # noqa: ANN401 - the type of a field
    """How a value of a type stands in a body; caught: as a group, without its quotes."""
    begin, end = ("(", ")") if caught else ("(?:", ")")
    if kind is int:
        return begin + _NUMBER + end
    if kind is str:
        return f'"{begin}{_TEXT}{end}"'
    if get_origin(kind) is Literal:
        return f'"{begin}{"|".join(re.escape(word) for word in get_args(kind))}{end}"'
    if get_origin(kind) is tuple:
        inner = _value(get_args(kind)[0], caught=False)
        return rf"\[(?:{inner}(?:,{inner})*)?\]"
    if get_origin(kind) in (Union, UnionType):
        (inner,) = [one for one in get_args(kind) if one is not type(None)]
        return f"(?:null|{_value(inner, caught=caught)})"
    raise TypeError(f"no row of {kind!r} is a plain one")


def form_of(
    cls: type[Event], caught: Iterable[str], fixed: Mapping[str, str | None]
) -> re.Pattern[str]:
    """What bodies of a class match. ``fixed`` fields have one value; None: they are left out."""
    parts: list[str] = []
    for field in attrs.fields(cls):
        value = fixed.get(field.name, "")
        if value is None:
            continue
        value = value or _value(field.type, caught=field.name in caught)
        part = f'{"," if parts else ""}"{field.name}":{value}'
        parts.append(part if field.default is attrs.NOTHING else f"(?:{part})?")
    return re.compile(r"\{" + "".join(parts) + r"\}")


_FIRST = r'"(?!fallback")({})"'.format("|".join(get_args(attrs.fields(Dispatched).reason.type)))
_FORMS = {
    "Dispatched": form_of(
        Dispatched,
        ("request_id", "model", "replica", "key"),
        {"attempt": "1", "reason": _FIRST, "tried": None, "earlier": None},
    ),
    "Released": form_of(
        Released,
        ("dispatch", "ttfb_ms", "duration_ms"),
        {"outcome": '"ok"', "cause": '"none"', "blame": '"none"', "status": "200"},
    ),
    "Bound": form_of(Bound, ("kind", "cause", "dispatch"), {}),
    "Spilled": form_of(Spilled, ("kind", "cause", "dispatch"), {}),
    "Rebound": form_of(Rebound, ("kind", "cause", "dispatch"), {}),
    "Unbound": form_of(Unbound, ("kind", "cause", "dispatch"), {}),
}
_LOOKS = {name: (KINDS[name].schema, form.fullmatch) for name, form in _FORMS.items()}
_NONE = (0, None)


def plain_runs(rows: Iterable[Bare]) -> list[Run | Record]:
    """The same rows in the same order, the plain ones gathered. A Record of them has no chain."""
    runs: list[Run | Record] = []
    whos: dict[Who, Who] = {}
    stream, version, to_ms = "", -1, 0
    run: Run | None = None
    for seq, of, number, kind, schema, at_ms, body in rows:
        known, look = _LOOKS.get(kind, _NONE)
        found = look(body) if look is not None and schema == known else None
        if found is None:
            runs.append(
                Record(
                    seq,
                    of,
                    number,
                    kind,
                    schema,
                    at_ms,
                    0,
                    body.encode("utf-8", "surrogateescape"),
                    b"",
                )
            )
            _end(run, version, to_ms)
            run = None
            continue
        if run is None or of != stream or number != version + 1 or at_ms < to_ms:
            _end(run, version, to_ms)
            run = Run(of, seq, number, at_ms, number, at_ms)
            runs.append(run)
            move, pins, stream = run.moves.append, run.pins, of
        version, to_ms = number, at_ms
        if kind == "Released":
            dispatch, ttfb, lasted = found.groups()
            ttfb_ms = None if ttfb is None else int(ttfb)
            move((version, at_ms, int(dispatch), ttfb_ms, int(lasted)))
        elif kind == "Dispatched":
            request_id, model, replica, reason, key = found.groups()
            who = whos.setdefault((model, key), (model, key))
            move((version, at_ms, replica, who, request_id, reason))
        else:
            pin, cause, dispatch = found.groups()
            row = (version, at_ms, None if dispatch is None else int(dispatch))
            fate = (kind, pin, cause)
            if fate in pins:
                pins[fate].append(row)
            else:
                pins[fate] = [row]
    _end(run, version, to_ms)
    return runs


def _end(run: Run | None, version: int, to_ms: int) -> None:
    if run is not None:
        run.last, run.to_ms = version, to_ms


def bare(record: Record) -> Bare:
    """As ``SqliteReader.read_bare`` gives it; what is no UTF-8 is no plain row either."""
    body = record.body.decode("utf-8", "surrogateescape")
    place = record.seq, record.stream, record.version
    return (*place, record.kind, record.schema, record.at_ms, body)
