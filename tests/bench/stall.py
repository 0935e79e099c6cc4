"""What large prompts do to others: to small requests beside them, and to trioroute's event loop."""

import re
import time
from collections.abc import Mapping

import httpx

from tests.bench.arena import Standing
from tests.bench.load import Load, RunFailedError

SERIES = "trioroute_loop_lag_seconds"
PROMPT_BYTES = 1_000_000
FIRST_TOKEN_US = 20000
AFTER_20_MS = f"reply=1024 first_us={FIRST_TOKEN_US}"
PER_S = 50
BESIDE_PER_S = 100
PAGE_AGE_S = 1.1
"""The metrics page is written at most once a second."""

Buckets = Mapping[float, float]


def stall_ms(standing: Standing, ms: int) -> float:
    """The p99 of the lag while 1 MB prompts come at 50/s."""
    before = _buckets(standing)
    load = Load(16, AFTER_20_MS, PROMPT_BYTES, ms=ms, length=1024, marks=1, rate=PER_S)
    outcome = standing.load(load).checked()
    if outcome.done < 0.9 * PER_S * outcome.seconds:
        raise RunFailedError(f"only {outcome.done / outcome.seconds:.0f} of {PER_S} prompts/s")
    time.sleep(PAGE_AGE_S)
    after = _buckets(standing)
    grown = {bound: count - before.get(bound, 0) for bound, count in after.items()}
    return quantile(grown, 0.99) * 1000


def alone_and_beside_p99_ms(standing: Standing, ms: int) -> tuple[float, float]:
    """The p99 of what the target adds to small requests, alone and while 1 MB prompts come at 50/s.

    Without the first, the second would pass for what large prompts cost: an upstream that answers
    at once leaves no time for a commit of the log, which takes as long as the disk likes.
    """
    return _small_p99_ms(standing, ms), _beside_p99_ms(standing, ms)


def _beside_p99_ms(standing: Standing, ms: int) -> float:
    large = Load(16, AFTER_20_MS, PROMPT_BYTES, ms=ms + 1500, marks=1, rate=PER_S)
    with standing.generator.started(standing.port, large):
        return _small_p99_ms(standing, ms)


def _small_p99_ms(standing: Standing, ms: int) -> float:
    small = Load(16, AFTER_20_MS, length=1024, marks=1, warmup_ms=800, ms=ms, rate=BESIDE_PER_S)
    outcome = standing.load(small).checked()
    if outcome.done < 0.9 * BESIDE_PER_S * outcome.seconds:
        raise RunFailedError(f"only {outcome.done / outcome.seconds:.0f} of {BESIDE_PER_S}/s")
    return (outcome.latency.p99 - FIRST_TOKEN_US) / 1000


def _buckets(standing: Standing) -> Buckets:
    return parse_buckets(httpx.get(f"http://127.0.0.1:{standing.admin_port}/metrics").text)


def parse_buckets(page: str) -> Buckets:
    """Cumulative counts by upper bound in seconds."""
    pattern = rf'^{SERIES}_bucket\{{le="([^"]+)"\}} (\S+)'
    found = re.findall(pattern, page, re.MULTILINE)
    return {float(bound): float(count) for bound, count in found}


def quantile(cumulative: Buckets, part: float) -> float:
    """As Prometheus' histogram_quantile: linear within its bucket, the last bound at most."""
    bounds = sorted(cumulative)
    total = cumulative[bounds[-1]] if bounds else 0
    if not total:
        raise RunFailedError(f"no {SERIES} was recorded")
    rank, low, below = part * total, 0.0, 0.0
    for bound in bounds:
        if cumulative[bound] >= rank:
            if bound == float("inf"):
                return low
            inside = cumulative[bound] - below
            return low + (bound - low) * ((rank - below) / inside if inside else 1.0)
        low, below = bound, cumulative[bound]
    return low
