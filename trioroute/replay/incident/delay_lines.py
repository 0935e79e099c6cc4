"""Requests that were delayed, and what they were compared with, as tables."""

from collections.abc import Iterable

from trioroute.replay.clock import span
from trioroute.replay.incident.block import Block, clock_time
from trioroute.replay.incident.glossary import WORDS
from trioroute.replay.incident.told import Incident, Late
from trioroute.replay.requested import Usual
from trioroute.replay.usual import TOO_FEW

ROWS_SHOWN = 40
"""Rows of a table; the data has more."""


def delay_blocks(told: Incident) -> list[Block]:
    """Counted by phase, model, key and replica; then the latest by name; then what is usual."""
    if not told.usual:
        said = f"which requests were delayed is not known (?): {TOO_FEW}. {_MEANT}"
        return [Block("Delayed requests", (said,))]
    if not told.delayed:
        return [Block("Delayed requests", (f"none. {_MEANT}",)), _usual(told.usual)]
    columns = ("phase from", "phase", "replica", "model", "key", "delayed", "the latest")
    rows = tuple(
        (
            clock_time(one.from_ms),
            one.phase,
            one.replica,
            one.model or "none",
            one.key or "none",
            str(one.requests),
            ", ".join(one.worst) or "not kept",
        )
        for one in told.delayed[:ROWS_SHOWN]
    )
    notes = [_MEANT, "counted in the phase in which their first byte was overdue"]
    if (more := len(told.delayed) - ROWS_SHOWN) > 0:
        notes.append(f"{more} more rows are not shown")
    counted = Block("Delayed requests", tuple(notes), columns, rows, ("delayed",))
    return [counted, _latest(told.latest), _usual(told.usual)]


_MEANT = f"delayed: {WORDS['delayed']}"


def _latest(latest: Iterable[Late]) -> Block:
    latest = tuple(latest)
    still = any(one.stood_ms for one in latest)
    own = ("router still",) if still else ()
    columns = ("time", "request", "decision", "replica", "first byte", "in line", "tried", *own)
    rows = tuple(
        (
            clock_time(one.at_ms),
            one.request_id,
            one.decision,
            one.replica,
            f"{span(one.delay.first_byte_ms)}{', then left' if one.delay.left else ''}",
            _if_any(one.delay.waited_ms),
            _if_any(one.delay.tried_ms),
            *((_if_any(one.stood_ms),) if still else ()),
            span(one.delay.usual_ttfb_ms),
        )
        for one in latest
    )
    more = ", and as long as the router itself stood still," if still else ""
    said = f"first byte: after the request came; in line and tried (in earlier attempts){more}"
    heads = (*columns, "usual")
    return Block("The latest first bytes", (f"{said} are in it",), heads, rows, heads[4:])


def _if_any(ms: int) -> str:
    return span(ms) if ms else ""


def _usual(usual: Iterable[Usual]) -> Block:
    columns = ("model", "answer", "prompt", "looked at", "usual", "slow", "delayed from")
    rows = tuple(
        (
            one.model or "none",
            "any" if one.whole is None else "whole" if one.whole else "in pieces",
            _prompt(one),
            str(one.answers),
            *("?" if ms is None else span(ms) for ms in (one.usual_ttfb_ms, one.slow_ttfb_ms)),
            "?" if one.delayed_from_ms is None else f"{one.delayed_from_ms} ms",
        )
        for one in usual
    )
    said = ("times to first byte of an even sample, from an hour or more before to the end",)
    return Block("What is usual", said, columns, rows[:ROWS_SHOWN], columns[3:])


def _prompt(one: Usual) -> str:
    if one.prompt_from_bytes is None or one.prompt_to_bytes is None:
        return "any"
    top = one.prompt_to_bytes // 1024
    return (
        f"{one.prompt_from_bytes // 1024} to {top} KiB" if one.prompt_from_bytes else f"< {top} KiB"
    )
