"""Samples of one page as integers: sums and shares, unknown wherever a part is unknown."""

import math
from collections.abc import Iterable, Mapping

from trioroute.scrape.exposition import Sample

COUNT_MAX = 2**53
"""Beyond it a float counts no more; such a value is unknown (and would not fit the log)."""

Labels = frozenset[tuple[str, str]]
Series = Mapping[Labels, float | None]


def by_name(
    samples: Iterable[Sample], same_load: frozenset[str] = frozenset()
) -> dict[str, dict[Labels, float | None]]:
    """The series of each name. Those that differ in labels of ``same_load`` only tell the same
    load, as one told twice does (which is not legal): the larger one counts, in any order."""
    series: dict[str, dict[Labels, float | None]] = {}
    for sample in samples:
        of_name = series.setdefault(sample.name, {})
        key = frozenset(pair for pair in sample.labels.items() if pair[0] not in same_load)
        value = sample.value
        if key in of_name:
            before = of_name[key]
            value = None if value is None or before is None else max(value, before)
        of_name[key] = value
    return series


def first(series: Mapping[str, Series], names: tuple[str, ...]) -> Series:
    """The series of the first of these names that is on the page."""
    return next((series[name] for name in names if name in series), {})


def known(value: float | None, most: float) -> float | None:
    """The value, unless it is missing, negative or more than ``most`` (NaN is never in between)."""
    return value if value is not None and 0 <= value <= most else None


def total(series: Series) -> int | None:
    """The sum; None if there is none, or one part is unknown."""
    found = 0
    for value in series.values():
        part = known(value, COUNT_MAX)
        if part is None:
            return None
        found += math.ceil(part)
    return found if series and found <= COUNT_MAX else None


def fullest_m(series: Series) -> int | None:
    """The largest share (0 to 1) in thousandths."""
    largest = 0
    for value in series.values():
        part = known(value, 1)
        if part is None:
            return None
        largest = max(largest, round(part * 1000))
    return largest if series else None


def both_totals(running: Series, waiting: Series) -> tuple[int | None, int | None]:
    """Both sums. An engine that appears in only one of them makes the other unknown: half a sum
    would make a busy replica look idle."""
    every = running.keys() | waiting.keys()
    return (
        total(running) if len(running) == len(every) else None,
        total(waiting) if len(waiting) == len(every) else None,
    )
