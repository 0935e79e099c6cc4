"""Which rules acted, by their numbers in RULES, and what one setting more would have changed."""

from collections.abc import Sequence
from functools import cache

import attrs

from trioroute.events import (
    Dispatched,
    Ejected,
    Event,
    Failed,
    Live,
    Probing,
    Rebound,
    Refused,
    Released,
    ScrapeFailed,
)
from trioroute.policy.recovery import AT_ONCE
from trioroute.projections import State
from trioroute.projections.health import BUSY_STATUSES
from trioroute.replay.check import PIN_EVENTS
from trioroute.replay.incident.told import Acted
from trioroute.replay.plain import PinFate, PinRow
from trioroute.replay.read import decision_name
from trioroute.replay.words import PIN_ENDS, SPILLS

_DEAD = ("ejected", "probing", "draining", "joining", "asleep", "gone")
_REBOUND = {"spills": "5.5", "force": "5.6", "failed": "5.9"}
_SPILLS_KEY = "pins.spills_to_rebind"
_UNBOUND = {"ttl": "5.3", "spills": "5.7", "evicted": "5.10", "failed": "5.9"}


def usual(event: Event) -> bool:
    """Most rows of a log: a first dispatch or an end by which no rule acted."""
    if isinstance(event, Dispatched):
        return event.attempt == 1 and event.reason != "fallback"
    return isinstance(event, Released) and event.status not in BUSY_STATUSES


def rule_of(event: Event, was: str) -> tuple[str, str] | None:
    """Number of the rule that made ``event``, and what it did; ``was``: the state of the replica
    that was ejected or became LIVE."""
    if isinstance(event, PIN_EVENTS):  # first, for they are the most
        return _pin_rule(type(event).__name__, event.kind, event.cause)
    match event:
        case Ejected(by=str()):
            return "6", "a replica was ejected by hand"
        case Ejected() if was == "PROBING":
            return "6.6", f"a PROBING replica was ejected: {event.cause}"
        case Ejected():
            return "6.2", f"a replica was ejected: {event.cause}"
        case Probing():
            return "6.4", "an ejected replica got limited traffic: PROBING"
        case Live():
            if was == "PROBING":
                return "6.5", "a PROBING replica proved itself: LIVE"
            return None
        case Dispatched(attempt=attempt) if attempt > 1:
            return "4.6", "a request was tried again elsewhere"
        case Dispatched(reason="fallback"):
            return "4 step 5", "nobody was routable: a random known replica"
        case Refused(code="no_healthy_instances"):
            return "4 step 5", "nobody was left: refused with no_healthy_instances"
        case Refused(code="overloaded"):
            return "4.7", "the line was full or its time over: refused with overloaded"
        case Failed() | Released():
            if event.status in BUSY_STATUSES:
                return "6.2", f"a replica answered {event.status}: busy, passed over for a while"
            return None
        case _:
            return None


@cache
def _pin_rule(what: str, kind: str, cause: str) -> tuple[str, str] | None:
    """``what`` became of a pin of a kind: Bound, Spilled, Rebound or Unbound."""
    if what == "Spilled":
        return "4 step 4", f"a {kind} pin spilled: {SPILLS[cause]}"
    if what == "Rebound":
        number = "5.8" if cause in _DEAD else _REBOUND[cause]
        return number, f"a {kind} pin moved: {PIN_ENDS[cause]}"
    if what == "Unbound":
        number = "5.8" if cause in _DEAD else _UNBOUND[cause]
        return number, f"a {kind} pin was removed: {PIN_ENDS[cause]}"
    return None


@attrs.define
class Rules:
    """What acted so far. The hints are exact for the row they name: one step more of one setting,
    and that row would not be there. What would have followed is for ``--what-if`` to say."""

    acted: dict[tuple[str, str], tuple[int, str]] = attrs.field(factory=dict)
    hints: dict[str, str] = attrs.field(factory=dict)

    def take(self, place: str, event: Event, state: State, was: str, before: Event | None) -> None:
        """``state`` is that of just before ``event``, and ``before`` the row that led to it."""
        found = rule_of(event, was)
        if found is not None:
            self._count(found, place)
        if isinstance(event, Ejected) and event.by is None:
            if event.n > 1:
                self._count(("6.7", "the cooldown doubled: ejected again"), place)
            self._ejected(place, event, state, was, before)
        elif isinstance(event, Rebound) and event.cause == "spills":
            self._moved(f"{place.rpartition('/')[0]}/{event.dispatch}", state)

    def pins(self, stream: str, fate: PinFate, rows: Sequence[PinRow], state: State) -> None:
        """As ``take``, of plain rows of one fate."""
        found = _pin_rule(*fate)
        if found is not None:
            self._count(found, decision_name(stream, rows[0][0]), len(rows))
        if fate[0] == "Rebound" and fate[2] == "spills":
            self._moved(decision_name(stream, rows[0][2] or 0), state)

    def _moved(self, decision: str, state: State) -> None:
        least = state.settings.pins.spills_to_rebind + 1
        self.hints.setdefault(
            _SPILLS_KEY,
            f"{decision} moved its session's pin by RULES 5.5 alone: with "
            f"{_SPILLS_KEY}={least} it would have stayed then",
        )

    def _count(self, found: tuple[str, str], place: str, times: int = 1) -> None:
        count, first = self.acted.get(found, (0, place))
        self.acted[found] = (count + times, first)

    def _ejected(
        self, place: str, event: Ejected, state: State, was: str, before: Event | None
    ) -> None:
        health, most = state.health.get(event.replica), state.settings.eject.scrape_failures
        if health is None or was != "LIVE" or not isinstance(before, ScrapeFailed):
            return
        row = before.replica == event.replica and before.cause not in AT_ONCE
        if row and health.scrape_failures == most:
            self.hints.setdefault(
                "eject.scrape_failures",
                f"the eject at {place} came at failed scrape {most} in a row: with "
                f"eject.scrape_failures={most + 1} it would not have come there",
            )

    def told(self) -> tuple[Acted, ...]:
        rows = [
            Acted(rule=rule, what=what, count=count, first=first)
            for (rule, what), (count, first) in self.acted.items()
        ]
        return tuple(sorted(rows, key=lambda one: _in_order(one.rule)))


def _in_order(rule: str) -> tuple[int, ...]:
    return tuple(int(part) for part in rule.replace(" step ", ".").split("."))
