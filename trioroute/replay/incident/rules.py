"""Which rules acted, by their numbers in RULES."""

from functools import cache

import attrs

from trioroute.events import (
    Dispatched,
    Ejected,
    Event,
    Failed,
    Live,
    Probing,
    Refused,
    Released,
)
from trioroute.projections.health import BUSY_STATUSES
from trioroute.replay.check import PIN_EVENTS
from trioroute.replay.incident.harm import Harms
from trioroute.replay.incident.told import Acted
from trioroute.replay.plain import PinFate, PinRows
from trioroute.replay.read import decision_name
from trioroute.replay.words import NOT_FAILED, PIN_ENDS, SPILLS

_DEAD = ("ejected", "probing", "draining", "joining", "asleep", "gone")
_REBOUND = {"spills": "5.5", "force": "5.6", "failed": "5.9"}
_UNBOUND = {"ttl": "5.3", "spills": "5.7", "evicted": "5.10", "failed": "5.9"}


def usual(event: Event) -> bool:
    """Most rows of a log: a first dispatch or an end by which no rule acted."""
    if isinstance(event, Dispatched):
        return event.attempt == 1 and event.reason != "fallback"
    if not isinstance(event, Released) or event.outcome not in NOT_FAILED:
        return False
    return event.status not in BUSY_STATUSES


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
    """What acted so far, and the harm that was done."""

    acted: dict[tuple[str, str], tuple[int, str]] = attrs.field(factory=dict)
    harms: Harms = attrs.field(factory=Harms)

    def take(self, place: str, event: Event, was: str, before: Event | None) -> None:
        """``was`` as in ``rule_of``; ``before`` is the row that led to ``event``."""
        found = rule_of(event, was)
        if found is not None:
            self._count(found, place)
        if isinstance(event, PIN_EVENTS):
            if event.dispatch is not None:
                decision = f"{place.rpartition('/')[0]}/{event.dispatch}"
                self.harms.pins(type(event).__name__, event.kind, event.cause, decision)
            return
        if isinstance(event, Ejected) and event.by is None and event.n > 1:
            self._count(("6.7", "the cooldown doubled: ejected again"), place)
        self.harms.take(place, event, was, before)

    def pins(self, stream: str, fate: PinFate, rows: PinRows) -> None:
        """As ``take``, of plain rows of one fate."""
        found = _pin_rule(*fate)
        if found is not None:
            self._count(found, decision_name(stream, rows.versions[0]), len(rows.versions))
        if rows.first_made is not None:
            self.harms.pins(*fate, decision_name(stream, rows.first_made), rows.made)

    def _count(self, found: tuple[str, str], place: str, times: int = 1) -> None:
        count, first = self.acted.get(found, (0, place))
        self.acted[found] = (count + times, first)

    def told(self) -> tuple[Acted, ...]:
        rows = [
            Acted(rule=rule, what=what, count=count, first=first)
            for (rule, what), (count, first) in self.acted.items()
        ]
        return tuple(sorted(rows, key=lambda one: _in_order(one.rule)))


def _in_order(rule: str) -> tuple[int, ...]:
    return tuple(int(part) for part in rule.replace(" step ", ".").split("."))
