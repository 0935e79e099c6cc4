"""Whether another line would have kept a request from being refused or delayed (RULES 4.7).

Requests of one key and model stand in the order they came. So where one that came later got a place
from the line, one that had still stood there would have had it.
"""

from collections.abc import Iterable

import attrs

from trioroute.events import Configured, Dispatched, Event, Refused, Started
from trioroute.events.sections import Admission
from trioroute.policy.commands import Arrive
from trioroute.policy.select import narrow
from trioroute.projections import State
from trioroute.replay.clock import span
from trioroute.replay.incident.changed import Change, Proof, longer
from trioroute.replay.incident.told import Late

NEAR_MS = 100
"""Who was refused so shortly before its ``admission.max_wait`` was over had waited for that long:
timers are not exact."""

AHEAD_MS = 60_000
"""How far on a place is looked for."""

Folded = Iterable[tuple[int, Event | None, State]]
"""Rows in order: time, event, and the state after it."""

Rows = Iterable[tuple[int, Event | None]]


@attrs.define
class Room:
    """When there was room for a request to ``model`` for the first time, None: not in the rows."""

    model: str
    first_ms: int | None = None

    def look(self, rows: Folded) -> "Room":
        for at_ms, event, state in rows:
            if isinstance(event, Started) or (
                isinstance(event, Configured) and event.by != "start"
            ):
                break
            arrive = Arrive(at_ms=at_ms, request_id="", model=self.model, prompt_bytes=0)
            if getattr(narrow(state, arrive), "verdict", "chosen") == "chosen":
                self.first_ms = at_ms
                break
        return self


@attrs.frozen
class Refusal:
    """``place`` is that of its row."""

    place: str
    at_ms: int
    event: Refused


def line_proof(refusal: Refusal, limits: Admission, rows: Rows) -> Proof:
    """Of a line in which requests may wait; ``rows`` follow the refusal."""
    waited_ms = refusal.event.waited_ms
    joined_ms = refusal.at_ms - waited_ms
    over = waited_ms >= limits.max_wait_ms - NEAR_MS
    if waited_ms and not over:
        text = f"{refusal.place} gave its place in the full line to another key after"
        return Proof(
            None, f"{text} {span(waited_ms)} (RULES 4.7): that one more helps is not proved"
        )
    until_ms = refusal.at_ms + AHEAD_MS if waited_ms else refusal.at_ms + limits.max_wait_ms
    served_ms = _served_ms(refusal, joined_ms, until_ms, rows)
    if waited_ms:
        told = (
            f"{refusal.place} was refused after {span(waited_ms)} in line, its admission.max_wait"
        )
        if served_ms is None:
            text = f"nobody of its key and model who came later got a place within {span(AHEAD_MS)}"
            return Proof(None, f"no admission.max_wait is proved to help: {told}, and {text}")
        change = longer("admission.max_wait", limits.max_wait_ms, served_ms - joined_ms)
        return Proof(
            change, f"{told}: with {change.words} it would have had {_place(served_ms, refusal)}"
        )
    most = limits.max_waiting
    told = f"{refusal.place} was refused at once, for all places in the line were taken"
    if served_ms is None:
        text = "nobody of its key and model who came later got a place in time"
        return Proof(None, f"no admission.max_waiting is proved to help: {told}, and {text}")
    change = Change("admission.max_waiting", str(most), str(most + 1))
    return Proof(
        change, f"{told}: with {change.words} it would have had {_place(served_ms, refusal)}"
    )


def _place(served_ms: int, refusal: Refusal) -> str:
    return (
        f"the place that one who came later got {span(served_ms - refusal.at_ms)} after it was "
        "refused, or one before"
    )


def _served_ms(refusal: Refusal, joined_ms: int, until_ms: int, rows: Rows) -> int | None:
    """When somebody of the same key and model, who came later, got a place from the line."""
    event = refusal.event
    for at_ms, row in rows:
        if at_ms >= until_ms or isinstance(row, Started | Configured):
            return None
        if isinstance(row, Dispatched) and row.waited_ms and row.attempt == 1:
            later = at_ms - row.waited_ms >= joined_ms
            if later and (row.model, row.key) == (event.model, event.key):
                return at_ms
    return None


def no_line_proof(refusal: Refusal, limits: Admission, after: Room) -> Proof:
    """Nobody may wait: with the change it would have been the first, and there was room again."""
    if not limits.max_waiting:
        change, within_ms = Change("admission.max_waiting", "0", "1"), limits.max_wait_ms
    else:
        later_ms = refusal.at_ms if after.first_ms is None else after.first_ms
        change = longer("admission.max_wait", 0, later_ms - refusal.at_ms)
        within_ms = AHEAD_MS
    place, now = refusal.place, f"{change.key}={change.now} lets nobody wait"
    later_ms = within_ms if after.first_ms is None else after.first_ms - refusal.at_ms
    if later_ms >= within_ms:
        return Proof(None, f"{place} was refused as {now}, and there was no room again in time")
    return Proof(
        change,
        f"{place} was refused as {now}: with {change.words} it would have been the first in line, "
        f"and there was room after {span(later_ms)}",
    )


def delay_proof(late: Late, change: Change | None, rows: Rows) -> Proof | None:
    """Of a request that stood in line; ``change`` had given it room as it came, if nobody stood
    there before it. ``rows`` are those from when it came to its dispatch."""
    ahead = any(
        isinstance(row, Dispatched)
        and row.waited_ms
        and row.model == late.model
        and at_ms - row.waited_ms < late.at_ms
        for at_ms, row in rows
    )
    if change is None or ahead:
        return None
    return Proof(
        change,
        f"{late.decision} ({late.request_id}) was delayed, for it stood in line for "
        f"{span(late.delay.waited_ms)} as every replica was full: with {change.words} it would "
        "have been dispatched as it came",
    )


def unknown_proof(place: str, why: str) -> Proof:
    return Proof(
        None,
        f"no admission.max_wait and no admission.max_waiting is proved to help {place}: {why}",
    )
