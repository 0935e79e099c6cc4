"""Which rules acted, by their numbers in RULES, and what one setting more would have changed."""

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
    Spilled,
    Unbound,
)
from trioroute.policy.recovery import AT_ONCE
from trioroute.projections import State
from trioroute.projections.health import BUSY_STATUSES
from trioroute.replay.check import PIN_EVENTS, PinEvent
from trioroute.replay.incident.told import Acted
from trioroute.replay.words import PIN_ENDS, SPILLS

_DEAD = ("ejected", "probing", "draining", "joining", "asleep", "gone")
_REBOUND = {"spills": "5.5", "force": "5.6", "failed": "5.9"}
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
        return _pin_rule(event)
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


def _pin_rule(event: PinEvent) -> tuple[str, str] | None:
    if isinstance(event, Spilled):
        return "4 step 4", f"a {event.kind} pin spilled: {SPILLS[event.cause]}"
    if isinstance(event, Rebound):
        number = "5.8" if event.cause in _DEAD else _REBOUND[event.cause]
        return number, f"a {event.kind} pin moved: {PIN_ENDS[event.cause]}"
    if isinstance(event, Unbound):
        number = "5.8" if event.cause in _DEAD else _UNBOUND[event.cause]
        return number, f"a {event.kind} pin was removed: {PIN_ENDS[event.cause]}"
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
            least = state.settings.pins.spills_to_rebind + 1
            decision = f"{place.rpartition('/')[0]}/{event.dispatch}"
            self.hints.setdefault(
                "pins.spills_to_rebind",
                f"{decision} moved its session's pin by RULES 5.5 alone: with "
                f"pins.spills_to_rebind={least} it would have stayed then",
            )

    def _count(self, found: tuple[str, str], place: str) -> None:
        count, first = self.acted.get(found, (0, place))
        self.acted[found] = (count + 1, first)

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
