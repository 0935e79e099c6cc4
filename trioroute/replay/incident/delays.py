"""Which first bytes came late: of each model, beside what was usual for it in normal phases.

The log does not tell whether an answer was streamed, and the first byte of a whole one comes at its
end. So a first byte is late only where next to none of the same model took as long in normal
phases, whatever mixture of both that is.
"""

from collections import Counter
from collections.abc import Iterable

import attrs

from trioroute.replay.incident.bins import bin_of, edge_of
from trioroute.replay.incident.times import quantile_bin
from trioroute.replay.incident.told import Usual

USUAL_MIN = 20
"""Fewer answers in normal phases do not say what a usual time to first byte is."""

DELAYED_TIMES = 3
"""Delayed: a first byte this many times later than the median of normal phases."""

LATE_MAX = 100
"""And later than all but one in so many of normal phases."""


@attrs.frozen
class Border:
    """``from_bin`` None: too few answers of normal phases tell what is usual."""

    usual: Usual
    from_bin: int | None


def border_of(model: str | None, normal: Iterable[Counter[int]]) -> Border:
    """Of a model's first bytes in normal phases, as bins."""
    bins = Counter[int]()
    for one in normal:
        bins.update(one)
    answers = bins.total()
    if answers < USUAL_MIN:
        return Border(Usual(model=model, answers=answers), None)
    median = edge_of(quantile_bin(bins, 500))
    border = max(
        bin_of(max(1, median * DELAYED_TIMES)) + 1,
        quantile_bin(bins, 1000 - 1000 // LATE_MAX) + 1,
    )
    late = sum(count for at, count in bins.items() if at >= border)
    usual = Usual(
        model=model,
        answers=answers,
        usual_ttfb_ms=median,
        delayed_from_ms=edge_of(border),
        late_m=late * 1000 // answers,
    )
    return Border(usual, border)
