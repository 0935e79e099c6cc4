"""What a run saw and measured, told at its end."""

import re
from collections import Counter
from collections.abc import Iterator

import attrs
from prometheus_client.parser import text_string_to_metric_families

TOLD = ("trioroute_router_overhead_seconds", "trioroute_decision_seconds")
_VERIFIED = re.compile(r"verified: (\d+) events?, (\d+) decisions?")


@attrs.define
class Figures:
    """Sums over all the routers of a run; a router that was killed took its timings with it."""

    lines: list[str] = attrs.field(factory=list)
    routers: int = 0
    events: int = 0
    decisions: int = 0
    buckets: dict[str, Counter[float]] = attrs.field(
        factory=lambda: {name: Counter() for name in TOLD}
    )

    def add(self, page: str, verified: str) -> None:
        """A router's metrics page, and what ``replay --verify`` said of its log."""
        self.routers += 1
        found = _VERIFIED.search(verified)
        assert found, verified
        self.events += int(found[1])
        self.decisions += int(found[2])
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                name, is_bucket, _ = sample.name.partition("_bucket")
                if is_bucket and name in TOLD:
                    self.buckets[name][float(sample.labels["le"])] += int(sample.value)

    def told(self) -> Iterator[str]:
        yield from self.lines
        yield (
            f"{self.routers} routers' logs verified: "
            f"{self.events} events, {self.decisions} decisions"
        )
        for name, buckets in self.buckets.items():
            if total := buckets[float("inf")]:
                yield f"{name}: median {median_s(buckets) * 1e6:.0f} µs of {total}"


def median_s(buckets: Counter[float]) -> float:
    """The middle of a histogram by upper bound, cumulative, taken as even within its bucket."""
    middle = buckets[float("inf")] / 2
    lower = below = 0.0
    for bound, count in sorted(buckets.items()):
        if count >= middle and count > below:
            return lower + (bound - lower) * (middle - below) / (count - below)
        lower, below = bound, count
    raise ValueError("an empty histogram has no middle")
