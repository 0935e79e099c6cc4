"""What large prompts do to others: to small requests beside them, and to trioroute's event loop."""

import re
import time
from collections.abc import Mapping

import httpx

from tests.bench.arena import Standing
from tests.bench.load import Load, RunFailedError

SERIES = "trioroute_loop_lag_seconds"
PROMPT_BYTES = 1_000_000
PER_S = 50
BESIDE_PER_S = 100
PAGE_AGE_S = 1.1
"""The metrics page is written at most once a second."""

Buckets = Mapping[float, float]


def stall_ms(standing: Standing, ms: int) -> float:
    """The p99 of the lag while 1 MB prompts come at 50/s."""
    before = _buckets(standing)
    spec = "reply=1024 first_us=20000"
    load = Load(16, spec, PROMPT_BYTES, ms=ms, length=1024, marks=1, rate=PER_S)
    outcome = standing.load(load).checked()
    if outcome.done < 0.9 * PER_S * outcome.seconds:
        raise RunFailedError(f"only {outcome.done / outcome.seconds:.0f} of {PER_S} prompts/s")
    time.sleep(PAGE_AGE_S)
    after = _buckets(standing)
    grown = {bound: count - before.get(bound, 0) for bound, count in after.items()}
    return quantile(grown, 0.99) * 1000


def beside_p99_ms(standing: Standing, ms: int) -> float:
    """The p99 of the latency of small requests while 1 MB prompts come at 50/s."""
    large = Load(16, "reply=1024 first_us=20000", PROMPT_BYTES, ms=ms + 1500, marks=1, rate=PER_S)
    small = Load(16, "reply=1024", length=1024, marks=1, warmup_ms=800, ms=ms, rate=BESIDE_PER_S)
    with standing.generator.started(standing.port, large):
        outcome = standing.load(small).checked()
    if outcome.done < 0.9 * BESIDE_PER_S * outcome.seconds:
        raise RunFailedError(f"only {outcome.done / outcome.seconds:.0f} of {BESIDE_PER_S}/s")
    return outcome.latency.p99 / 1000


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
