"""The shape of a series, and how it becomes a metric family of prometheus_client."""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

import attrs
from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Sample,
)

from trioroute.observe.sight import Sight

Scalars = Iterable[tuple[tuple[str, ...], float]]
"""Label values and the value."""


@attrs.frozen(slots=True)
class Distribution:
    """``les`` are the upper bounds in seconds as text; ``counts`` has one more, for all above."""

    les: tuple[str, ...]
    counts: Sequence[int]
    sum_s: float
    exemplars: Sequence[Exemplar | None] = ()
    """One for each count, or none at all; only OpenMetrics has them."""


Distributions = Iterable[tuple[tuple[str, ...], Distribution]]


def seconds_of(bounds: Iterable[int], per_second: int) -> tuple[str, ...]:
    """Integer bounds as ``le`` labels in seconds, spelt the way OpenMetrics wants floats."""
    return tuple(repr(bound / per_second) for bound in bounds)


@attrs.frozen(slots=True)
class Counter:
    """``name`` without ``_total``, which prometheus_client appends."""

    name: str
    help: str
    labels: tuple[str, ...]
    find: Callable[[Sight], Scalars]

    def family(self, sight: Sight | None) -> Metric:
        """The family with its samples; without any if ``sight`` is None."""
        family = CounterMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in self.find(sight) if sight is not None else ():
            family.add_metric(labels, value)
        return family


@attrs.frozen(slots=True)
class Gauge:
    name: str
    help: str
    labels: tuple[str, ...]
    find: Callable[[Sight], Scalars]
    unit: str = ""

    def family(self, sight: Sight | None) -> Metric:
        family = GaugeMetricFamily(self.name, self.help, labels=self.labels, unit=self.unit)
        for labels, value in self.find(sight) if sight is not None else ():
            family.add_metric(labels, value)
        return family


@attrs.frozen(slots=True)
class Histogram:
    """Always in seconds."""

    name: str
    help: str
    labels: tuple[str, ...]
    find: Callable[[Sight], Distributions]

    def family(self, sight: Sight | None) -> Metric:
        family = HistogramMetricFamily(self.name, self.help, labels=self.labels, unit="seconds")
        for values, found in self.find(sight) if sight is not None else ():
            family.samples += self._samples(dict(zip(self.labels, values, strict=True)), found)
        return family

    def _samples(self, labels: dict[str, str], found: Distribution) -> list[Sample]:
        """What ``add_metric`` makes, in a fifth of its time: pages are mostly buckets."""
        sums = list(accumulate(found.counts))
        name = f"{self.name}_bucket"
        told = found.exemplars or (None,) * len(sums)
        buckets = zip((*found.les, "+Inf"), sums, told, strict=True)
        samples = [Sample(name, {**labels, "le": le}, n, None, one) for le, n, one in buckets]
        samples.append(Sample(f"{self.name}_count", labels, sums[-1]))
        samples.append(Sample(f"{self.name}_sum", labels, found.sum_s))
        return samples


@attrs.frozen(slots=True)
class Info:
    """``name`` without ``_info``, which prometheus_client appends; the value is always 1. Absent
    where nothing is found."""

    name: str
    help: str
    labels: tuple[str, ...]
    find: Callable[[Sight], Iterable[tuple[str, ...]]]

    def family(self, sight: Sight | None) -> Metric:
        family = InfoMetricFamily(self.name, self.help)
        for values in self.find(sight) if sight is not None else ():
            family.add_metric([], dict(zip(self.labels, values, strict=True)))
        return family


Series = Counter | Gauge | Histogram | Info
