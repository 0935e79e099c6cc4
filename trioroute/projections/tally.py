"""Counters and integer histograms of everything that was logged: where /metrics comes from.

Rebuilt from the log, so they survive a restart and cannot tell another story than the log.
"""

from bisect import bisect_left
from collections import deque

import attrs

from trioroute.events import Dispatched, Ejected, Failed, Rebound, Released, Scraped, Spilled
from trioroute.projections.load import Flight

BOUNDS_MS = (
    5,
    10,
    25,
    50,
    100,
    250,
    500,
    1000,
    2500,
    5000,
    10_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
)
SHARE_SLOT_MS = 10_000
SHARE_SLOTS = 30
"""Traffic share looks back five minutes (METRICS.md)."""

IMBALANCE_WINDOW_MS = 60_000


@attrs.define(slots=True)
class Histogram:
    """``counts`` per bound of ``BOUNDS_MS``, the last one for all above."""

    counts: list[int] = attrs.field(factory=lambda: [0] * (len(BOUNDS_MS) + 1))
    sum_ms: int = 0


Counter = dict[tuple[str, ...], int]


@attrs.define(slots=True)
class Tally:
    """Counters keyed by their labels, histograms by model, and two sliding windows."""

    requests: Counter = attrs.field(factory=dict)
    dispatches: Counter = attrs.field(factory=dict)
    spills: Counter = attrs.field(factory=dict)
    rebinds: Counter = attrs.field(factory=dict)
    ejections: Counter = attrs.field(factory=dict)
    scrapes: Counter = attrs.field(factory=dict)
    retries: Counter = attrs.field(factory=dict)
    tokens: Counter = attrs.field(factory=dict)
    ttfb: dict[str, Histogram] = attrs.field(factory=dict)
    duration: dict[str, Histogram] = attrs.field(factory=dict)
    share: dict[int, dict[str, int]] = attrs.field(factory=dict)
    imbalance: deque[tuple[int, int]] = attrs.field(factory=deque)

    def imbalance_m(self, at_ms: int) -> int:
        """Thousandths; the mean of the last minute's rounds, 0 without any."""
        recent = [value for when, value in self.imbalance if at_ms - when <= IMBALANCE_WINDOW_MS]
        return sum(recent) // len(recent) if recent else 0

    def traffic(self, at_ms: int) -> dict[str, int]:
        """Dispatches per replica within the last five minutes."""
        first = at_ms // SHARE_SLOT_MS - SHARE_SLOTS
        total: dict[str, int] = {}
        for slot, counts in self.share.items():
            if slot > first:
                for replica, count in counts.items():
                    total[replica] = total.get(replica, 0) + count
        return total


def _add(counter: Counter, labels: tuple[str, ...]) -> None:
    counter[labels] = counter.get(labels, 0) + 1


def _took(histograms: dict[str, Histogram], model: str, value_ms: int) -> None:
    known = histograms.get(model)
    if known is None:
        known = histograms[model] = Histogram()
    known.counts[bisect_left(BOUNDS_MS, value_ms)] += 1
    known.sum_ms += value_ms


def dispatch(tally: Tally, at_ms: int, event: Dispatched) -> None:
    labels = event.replica, event.reason
    tally.dispatches[labels] = tally.dispatches.get(labels, 0) + 1
    slot = at_ms // SHARE_SLOT_MS
    counts = tally.share.get(slot)
    if counts is None:
        counts = tally.share[slot] = {}
        for old in [known for known in tally.share if known <= slot - SHARE_SLOTS]:
            del tally.share[old]
    counts[event.replica] = counts.get(event.replica, 0) + 1


# What every request does is written out in ``dispatch`` and ``release``: calls are what it costs.


def fail(tally: Tally, event: Failed) -> None:
    """Every failed attempt but the router's own is followed by another one."""
    if event.blame != "router":
        _add(tally.retries, (event.cause,))


def release(tally: Tally, event: Released, flight: Flight) -> None:
    model, requests, tokens = flight.model, tally.requests, tally.tokens
    labels: tuple[str, ...] = (model, event.outcome)
    requests[labels] = requests.get(labels, 0) + 1
    if (prompt := event.prompt_tokens) is not None:
        labels = (model, "prompt")
        tokens[labels] = tokens.get(labels, 0) + prompt
    if (completion := event.completion_tokens) is not None:
        labels = (model, "completion")
        tokens[labels] = tokens.get(labels, 0) + completion
    if (ttfb_ms := event.ttfb_ms) is not None:
        _took(tally.ttfb, model, ttfb_ms)
    _took(tally.duration, model, event.duration_ms)


def orphan(tally: Tally, flight: Flight) -> None:
    _add(tally.requests, (flight.model, "unknown"))


def refuse(tally: Tally, model: str) -> None:
    _add(tally.requests, (model, "refused"))


def spill(tally: Tally, event: Spilled) -> None:
    _add(tally.spills, (event.kind,))


def rebind(tally: Tally, event: Rebound) -> None:
    _add(tally.rebinds, (event.cause,))


def eject(tally: Tally, event: Ejected) -> None:
    _add(tally.ejections, (event.replica, event.cause))


def read(tally: Tally, event: Scraped) -> None:
    for name in event.readings:
        _add(tally.scrapes, (name, "ok"))
    for name in event.same:
        _add(tally.scrapes, (name, "ok"))


def scrape_failed(tally: Tally, replica: str) -> None:
    _add(tally.scrapes, (replica, "failed"))


def sample_imbalance(tally: Tally, at_ms: int, value_m: int) -> None:
    tally.imbalance.append((at_ms, value_m))
    while tally.imbalance and at_ms - tally.imbalance[0][0] > IMBALANCE_WINDOW_MS:
        tally.imbalance.popleft()


def restart(tally: Tally, at_ms: int) -> None:
    """Forget samples from a clock that was ahead: they would count until it is reached."""
    last = at_ms // SHARE_SLOT_MS
    for slot in [known for known in tally.share if known > last]:
        del tally.share[slot]
    while tally.imbalance and tally.imbalance[-1][0] > at_ms:
        tally.imbalance.pop()
