"""What a run is judged by: times the clients saw, and how the requests were spread."""

from collections.abc import Sequence

import attrs

from trioroute.events import Rebound, Scraped, Spilled
from trioroute.projections import State
from trioroute.router import Decided
from trioroute.simulate.clock import BEGIN_MS, MS_NS

SLOT_MS = 10_000
WINDOW_SLOTS = 30
"""A window is five minutes; it slides by ten seconds (as ``traffic_share`` does)."""

MINUTE_MS = 60_000


@attrs.define(slots=True)
class Measures:
    """Filled during a run; times are nanoseconds, samples of imbalance thousandths.

    What happened before ``from_ns`` of the run, or began before it, is not counted.
    """

    ttft_ns: list[int] = attrs.field(factory=list)
    e2e_ns: list[int] = attrs.field(factory=list)
    errors: int = 0
    spills: int = 0
    rebinds: int = 0
    slots: dict[int, dict[str, int]] = attrs.field(factory=dict)
    imbalance: list[tuple[int, int]] = attrs.field(factory=list)
    from_ns: int = 0

    def dispatched(self, at_ms: int, replica: str) -> None:
        """A request went to ``replica``."""
        if self._early(at_ms):
            return
        slot = (at_ms - BEGIN_MS) // SLOT_MS
        counts = self.slots.get(slot)
        if counts is None:
            counts = self.slots[slot] = {}
        counts[replica] = counts.get(replica, 0) + 1

    def ended(self, begun_ns: int, first_ns: int | None, end_ns: int, *, error: bool) -> None:
        """A request is over. Only good ones have times; an error is counted instead."""
        if begun_ns < self.from_ns:
            return
        if error or first_ns is None:
            self.errors += 1
        else:
            self.ttft_ns.append(first_ns - begun_ns)
            self.e2e_ns.append(end_ns - begun_ns)

    def listen(self, state: State, decided: Decided) -> None:
        """Told after each fold of the router."""
        if self._early(state.at_ms):
            return
        for event in decided.events:
            kind = type(event)
            if kind is Spilled:
                self.spills += 1
            elif kind is Rebound:
                self.rebinds += 1
            elif kind is Scraped and state.tally.imbalance:
                at_ms, value_m = state.tally.imbalance[-1]
                self.imbalance.append((at_ms - BEGIN_MS, value_m))

    def _early(self, at_ms: int) -> bool:
        return (at_ms - BEGIN_MS) * MS_NS < self.from_ns

    def mean_imbalance(self) -> float:
        """The imbalance index (RULES 7) over the whole run: the mean of every round."""
        values = [value_m for _, value_m in self.imbalance]
        return sum(values) / len(values) / 1000 if values else 0.0

    def largest_imbalance(self, from_ms: int = 0) -> float:
        """The largest one-minute index from ``from_ms`` of the run on."""
        sums: dict[int, list[int]] = {}
        for at_ms, value_m in self.imbalance:
            if at_ms >= from_ms:
                one = sums.setdefault(at_ms // MINUTE_MS, [0, 0])
                one[0] += value_m
                one[1] += 1
        return max((total / count / 1000 for total, count in sums.values()), default=0.0)

    def largest_share(self, from_ms: int = 0) -> float:
        """The largest share of one replica's in any five minutes from ``from_ms`` on.

        The windows lie within the run; a shorter run is one window. Those with less than half of
        the mean traffic say little (the last client of a run is alone) and are passed over.
        """
        first = -(-from_ms // SLOT_MS)
        last = max(self.slots, default=-1)
        starts = range(first, max(first, last - WINDOW_SLOTS + 1) + 1)
        windows = [self._window(start) for start in starts]
        totals = [sum(window.values()) for window in windows]
        enough = sum(totals) / len(totals) / 2
        shares = [
            max(window.values()) / total
            for window, total in zip(windows, totals, strict=True)
            if total and total >= enough
        ]
        return max(shares, default=0.0)

    def _window(self, start: int) -> dict[str, int]:
        total: dict[str, int] = {}
        for slot in range(start, start + WINDOW_SLOTS):
            for replica, count in self.slots.get(slot, {}).items():
                total[replica] = total.get(replica, 0) + count
        return total


def percentile_s(values_ns: Sequence[int], share: float) -> float:
    """The smallest value that this share of all does not exceed (nearest rank), in seconds."""
    ordered = sorted(values_ns)
    if not ordered:
        return 0.0
    return ordered[max(0, -(-round(share * 1000) * len(ordered) // 1000) - 1)] / 1e9


def mean_s(values_ns: Sequence[int]) -> float:
    return sum(values_ns) / len(values_ns) / 1e9 if values_ns else 0.0


def times_s(measures: Measures) -> dict[str, float]:
    """What clients felt: the columns of times, in seconds, as every table has them."""
    ttft_ns = sorted(measures.ttft_ns)
    return {
        "ttft_mean_s": mean_s(ttft_ns),
        "ttft_p50_s": percentile_s(ttft_ns, 0.5),
        "ttft_p90_s": percentile_s(ttft_ns, 0.9),
        "ttft_p99_s": percentile_s(ttft_ns, 0.99),
        "e2e_mean_s": mean_s(measures.e2e_ns),
        "e2e_p99_s": percentile_s(measures.e2e_ns, 0.99),
    }
