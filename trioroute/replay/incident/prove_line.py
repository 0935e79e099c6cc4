"""Whether a longer line would have kept a request from being refused (RULES 4.7).

A refusal tells neither how long its request had waited nor how many did. But nobody waits where
there is room for all, so the rows around it may prove that it had not waited long.
"""

from collections.abc import Iterable

import attrs

from trioroute.events import Configured, Event, Started
from trioroute.events.sections import Admission
from trioroute.policy.commands import Arrive
from trioroute.policy.select import narrow
from trioroute.projections import State
from trioroute.replay.clock import span
from trioroute.replay.incident.changed import Change, Proof, length, longer

LASTS_MS = 1000
"""Room that lasts so long is room for all: whoever waits is called at every row that makes some."""

Folded = Iterable[tuple[int, Event | None, State]]
"""Rows in order: time, event, and the state after it."""


@attrs.define
class Room:
    """Whether there was room for a request to ``model``, row by row.

    ``since_ms``: since when there is, None: there is none. ``first_ms`` is when there was some for
    the first time, ``all_ms`` when some had lasted ``LASTS_MS``, ``over_ms`` when such room ended
    last, or the router started, which lets nobody wait. ``cut``: what is in force changed, so the
    rows tell nothing.
    """

    model: str
    since_ms: int | None = None
    first_ms: int | None = None
    all_ms: int | None = None
    over_ms: int | None = None
    cut: bool = False

    def look(self, rows: Folded) -> "Room":
        for at_ms, event, state in rows:
            self._until(at_ms)
            if isinstance(event, Started):
                self.since_ms, self.over_ms = None, at_ms
            self.cut |= isinstance(event, Configured) and event.by != "start"
            arrive = Arrive(at_ms=at_ms, request_id="", model=self.model, prompt_bytes=0)
            if getattr(narrow(state, arrive), "verdict", "chosen") != "chosen":
                self.since_ms = None
            elif self.since_ms is None:
                self.since_ms = at_ms
                self.first_ms = at_ms if self.first_ms is None else self.first_ms
        return self

    def _until(self, at_ms: int) -> None:
        """There was room up to ``at_ms``, if there was before."""
        if self.since_ms is not None and at_ms - self.since_ms >= LASTS_MS:
            self.over_ms = at_ms
            self.all_ms = self.since_ms + LASTS_MS if self.all_ms is None else self.all_ms


@attrs.frozen
class Refusal:
    """``place`` is that of its row; ``retried``: it was dispatched before, and so may have found
    room only where it could not use it."""

    place: str
    at_ms: int
    retried: bool


def line_proof(refusal: Refusal, limits: Admission, before: Room, after: Room) -> Proof:
    """``before`` and ``after`` tell of ``admission.max_wait`` before the refusal and after it."""
    place, waits_ms, most = refusal.place, limits.max_wait_ms, limits.max_waiting
    if before.cut or after.cut or refusal.retried:
        return unknown_proof(place)
    if not most:
        return _no_line(refusal, Change("admission.max_waiting", "0", "1"), after, waits_ms)
    if not waits_ms:
        later_ms = refusal.at_ms if after.first_ms is None else after.first_ms
        change = longer("admission.max_wait", 0, later_ms - refusal.at_ms)
        return _no_line(refusal, change, after, None)
    if before.over_ms is None or before.since_ms is not None:
        return unknown_proof(place)
    at_most_ms = refusal.at_ms - before.over_ms
    if at_most_ms >= waits_ms:
        return unknown_proof(place)
    told = (
        f"{place} was refused {span(at_most_ms)} after there had been room for all, sooner than "
        f"admission.max_wait={length(waits_ms)}: all places in the line were taken"
    )
    if after.all_ms is None or after.all_ms > before.over_ms + waits_ms:
        text = (
            "that one more would have helped is not proved, for there was no room for all in time"
        )
        return Proof(None, f"{told}; {text}")
    change = Change("admission.max_waiting", str(most), str(most + 1))
    later = span(after.all_ms - refusal.at_ms)
    return Proof(
        change,
        f"{told}; with {change.words} it would have stood in line, and within {later} there was "
        "room for all",
    )


def _no_line(refusal: Refusal, change: Change, after: Room, within_ms: int | None) -> Proof:
    """Nobody may wait: with the change it would have been the first, and there was room again."""
    place = refusal.place
    now = f"{change.key}={change.now} lets nobody wait"
    later_ms = None if after.first_ms is None else after.first_ms - refusal.at_ms
    if later_ms is None or (within_ms is not None and later_ms >= within_ms):
        return Proof(None, f"{place} was refused as {now}, and there was no room again in time")
    return Proof(
        change,
        f"{place} was refused as {now}: with {change.words} it would have been the first in line, "
        f"and there was room after {span(later_ms)}",
    )


def unknown_proof(place: str) -> Proof:
    return Proof(
        None,
        f"whether {place} would have been served with a longer admission.max_wait or a larger "
        "admission.max_waiting is not in the log, which tells neither how long it had waited nor "
        "how many did",
    )
