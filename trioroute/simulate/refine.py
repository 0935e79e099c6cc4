"""A fit brought nearer: least absolute deviations, and replicas that are not all equally fast.

Scaling until the middles agree leaves the rest of the times to chance. Here the costs of prompts
and of steps are varied, one after the other and ever less, while the sum of all relative errors
falls; and a replica whose requests take longer than the others' under the same engine is a slower
one.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Protocol

from trioroute.simulate.steps import SPEED_M

APART = 1.1
"""Replicas that differ by less are taken to be alike: that much is chance (chosen)."""

REPLICA_MIN = 20
"""Requests with known times that tell how fast a replica is (chosen)."""

FACTORS = (1.3, 1.1, 1.04)

OFF_MAX = 2.0
"""No single request counts for more: one that waited for something else tells nothing (chosen)."""

Pair = tuple[float, float]
"""A time as the log told it, and as the engine made it."""

Scales = tuple[float, float]
"""Of the cost of prompt tokens, and of steps."""


class Try(Protocol):
    """The sum of errors of an engine with such scales and such slow replicas."""

    def __call__(self, scales: Scales, slow_m: Mapping[str, int]) -> float: ...


def deviation(offs: Sequence[float]) -> float:
    """The mean of absolute relative errors, each of them bounded."""
    return sum(min(one, OFF_MAX) for one in offs) / len(offs) if offs else 0.0


def nearer(scales: Scales, slow_m: Mapping[str, int], tried: Try) -> Scales:
    """The scales around these at which the errors are least."""
    best = tried(scales, slow_m)
    for factor in FACTORS:
        better = True
        while better:
            better = False
            for candidate in _around(scales, factor):
                found = tried(candidate, slow_m)
                if found < best * 0.999:
                    best, scales, better = found, candidate, True
    return scales


def _around(scales: Scales, factor: float) -> list[Scales]:
    prefill, decode = scales
    return [
        (prefill * factor, decode),
        (prefill / factor, decode),
        (prefill, decode * factor),
        (prefill, decode / factor),
    ]


def slowness(pairs: Mapping[str, Sequence[Pair]], before: Mapping[str, int]) -> dict[str, int]:
    """How slow each replica is in thousandths, where they differ; else none is told."""
    ratios = {
        name: median(was / made for was, made in here if was > 0 and made > 0)
        * before.get(name, SPEED_M)
        / SPEED_M
        for name, here in pairs.items()
        if sum(was > 0 and made > 0 for was, made in here) >= REPLICA_MIN
    }
    if len(ratios) < 2 or max(ratios.values()) < APART * min(ratios.values()):
        return {}
    middle = median(ratios.values())
    return {name: max(1, round(SPEED_M * ratio / middle)) for name, ratio in ratios.items()}
