"""Every replica's place in traffic, its streaks and its evidence (RULES 6)."""

from typing import Literal

import attrs

from trioroute.events import (
    Ejected,
    Failed,
    Live,
    Probing,
    Reading,
    Released,
    ReplicaJoined,
    Scraped,
    ScrapeFailed,
)
from trioroute.events.sections import InForce
from trioroute.projections.load import Flight

Stage = Literal["JOINING", "LIVE", "EJECTED", "PROBING"]

FAULT_STATUSES = (500, 502, 504)
"""Answers that count towards an eject (RULES 6.2); 429 and 503 mean busy instead."""

BUSY_STATUSES = (429, 503)


@attrs.define(slots=True)
class Health:
    """``live_since_ms`` is when it last became LIVE, 0 if never; ``n`` counts ejects in a row.

    ``scrape_cause`` is why the last scrape failed, "none" if it was good.
    ``ejected_ms`` is when it was last ejected: what is older speaks of a process that is gone.
    ``moved_ms`` is when the generated-token counter last moved, or nothing was running.
    ``joined_ms`` is since when it is at this address: what was dispatched before went elsewhere.
    """

    stage: Stage = "JOINING"
    since_ms: int = 0
    live_since_ms: int = 0
    n: int = 0
    until_ms: int = 0
    eject_cause: str = "none"
    scrape_cause: str = "none"
    ejected_ms: int = 0
    scrape_failures: int = 0
    request_failures: int = 0
    good_scrapes: int = 0
    last_good_ms: int = 0
    busy_until_ms: int = 0
    moved_ms: int = 0
    tokens: int | None = None
    running: bool = False
    asleep: bool = False
    joined_ms: int = 0

    def streak(self, at_ms: int, settings: InForce) -> int:
        """``n`` as it counts now: 0 after an unbroken LIVE time (RULES 6.8)."""
        reset_ms = settings.eject.streak_reset_ms
        if self.stage == "LIVE" and at_ms - self.live_since_ms >= reset_ms:
            return 0
        return self.n

    def refuses(self) -> bool:
        """Whether it is out and nothing listens there (RULES 6.13), whatever it was ejected for.

        A terminating vLLM may reset the scrape of that moment and only then refuse.
        """
        refused = "refused" in (self.eject_cause, self.scrape_cause)
        return self.stage == "EJECTED" and refused and self.good_scrapes == 0

    def outlived(self, begun_ms: int) -> bool:
        """Whether what began then, a pin or a dispatch, is older than the last eject."""
        return begun_ms <= self.ejected_ms

    def concerns(self, dispatched_ms: int) -> bool:
        """Whether what was dispatched then says anything of the process there is now."""
        return self.ejected_ms < dispatched_ms >= self.joined_ms

    def stalled(self, at_ms: int, settings: InForce) -> bool:
        """Running requests, but no token for the stall time (RULES 6.10).

        Judged by what was read: while no scrape comes, nobody saw the counter stand still.
        """
        seen_ms = min(at_ms, self.last_good_ms)
        return self.running and seen_ms - self.moved_ms >= settings.eject.stall_after_ms


HealthTable = dict[str, Health]

DEPARTED_MAX = 1000


@attrs.define(slots=True)
class Departed:
    """What is remembered of a replica that left: its streak follows it back (RULES 6.7)."""

    url: str
    left_ms: int
    n: int
    until_ms: int
    out: bool


def join(
    table: HealthTable,
    at_ms: int,
    event: ReplicaJoined,
    same_address: bool,
    departed: dict[str, Departed],
    settings: InForce,
) -> None:
    """A new address starts anew: what was known belonged to another process.

    Who left and comes back to the same address within the streak window gets no amnesty: its count
    of ejects goes on, and a cooldown that was running runs on.
    """
    if event.replica in table and same_address:
        return
    health = table[event.replica] = Health(since_ms=at_ms, moved_ms=at_ms, joined_ms=at_ms)
    known = departed.pop(event.replica, None)
    if known is None or known.url != event.url:
        return
    if at_ms - known.left_ms <= settings.eject.streak_window_ms:
        health.n = known.n
        if known.out:
            health.stage = "EJECTED"
            health.ejected_ms = at_ms
            health.until_ms = known.until_ms


def leave(
    table: HealthTable,
    at_ms: int,
    name: str,
    url: str,
    departed: dict[str, Departed],
    settings: InForce,
) -> None:
    health = table.pop(name, None)
    n = 0 if health is None else health.streak(at_ms, settings)
    if health is None or not n:
        return
    while len(departed) >= DEPARTED_MAX:
        del departed[next(iter(departed))]
    out = health.stage in ("EJECTED", "PROBING")
    departed[name] = Departed(url, at_ms, n, health.until_ms, out)


def eject(table: HealthTable, at_ms: int, event: Ejected) -> None:
    health = table.get(event.replica)
    if health is None:
        return
    health.stage = "EJECTED"
    health.since_ms = health.ejected_ms = at_ms
    health.n = event.n
    health.until_ms = event.until_ms
    health.eject_cause = event.cause
    health.good_scrapes = 0
    health.request_failures = 0


def probe(table: HealthTable, at_ms: int, event: Probing) -> None:
    health = table.get(event.replica)
    if health is not None:
        health.stage = "PROBING"
        health.since_ms = at_ms
        health.request_failures = 0


def live(table: HealthTable, at_ms: int, event: Live) -> None:
    health = table.get(event.replica)
    if health is not None:
        health.stage = "LIVE"
        health.since_ms = health.live_since_ms = at_ms
        health.until_ms = 0
        health.request_failures = 0


def read(table: HealthTable, at_ms: int, event: Scraped) -> None:
    for name, reading in event.readings.items():
        health = table.get(name)
        if health is not None:
            _take(health, at_ms, reading)
    for name in event.same:
        health = table.get(name)
        if health is not None:
            _good(health, at_ms)
            if not health.running or health.tokens is None:
                health.moved_ms = at_ms


def _good(health: Health, at_ms: int) -> None:
    health.scrape_failures = 0
    health.scrape_cause = "none"
    health.good_scrapes += 1
    health.last_good_ms = at_ms


def _take(health: Health, at_ms: int, reading: Reading) -> None:
    _good(health, at_ms)
    health.asleep = reading.asleep
    health.running = bool(reading.running)
    if not health.running or reading.tokens is None or reading.tokens != health.tokens:
        health.moved_ms = at_ms
    health.tokens = reading.tokens


def scrape_failed(table: HealthTable, event: ScrapeFailed) -> None:
    health = table.get(event.replica)
    if health is not None:
        health.scrape_failures += 1
        health.scrape_cause = event.cause
        health.good_scrapes = 0


def ended(
    table: HealthTable, at_ms: int, flight: Flight, event: Failed | Released, *, answered: bool
) -> None:
    """Count an ending for or against its replica (RULES 6.2); ``answered``: properly.

    What was dispatched before the last eject says nothing of the replica that came back. A proper
    answer, a 4xx too, breaks a row of failures; a client that left does not.
    """
    health = table.get(flight.replica)
    if health is None or not health.ejected_ms < flight.at_ms >= health.joined_ms:  # concerns()
        return
    if event.retry_after_ms is not None:
        health.busy_until_ms = max(health.busy_until_ms, at_ms + event.retry_after_ms)
    elif event.blame == "replica":
        health.request_failures += 1
    elif answered:
        health.request_failures = 0


def restart(table: HealthTable, at_ms: int, settings: InForce) -> None:
    """Cut every deadline to now plus its maximum: a clock that was ahead freezes nothing."""
    for health in table.values():
        health.until_ms = min(health.until_ms, at_ms + settings.eject.cooldown_max_ms)
        health.busy_until_ms = min(health.busy_until_ms, at_ms + settings.eject.cooldown_max_ms)
        health.since_ms = min(health.since_ms, at_ms)
        health.live_since_ms = min(health.live_since_ms, at_ms)
        health.ejected_ms = min(health.ejected_ms, at_ms)
        health.last_good_ms = min(health.last_good_ms, at_ms)
        health.moved_ms = at_ms


def step_back(
    table: HealthTable, departed: dict[str, Departed], at_ms: int, behind_ms: int
) -> None:
    """The clock is behind what it told before: what was left then of each cooldown is left now."""
    for health in table.values():
        health.until_ms = max(0, health.until_ms - behind_ms)
        health.busy_until_ms = max(0, health.busy_until_ms - behind_ms)
        health.joined_ms = min(health.joined_ms, at_ms)
    for gone in departed.values():
        gone.until_ms = max(0, gone.until_ms - behind_ms)
        gone.left_ms = min(gone.left_ms, at_ms)
