"""The vLLM dialect: its metric names, old and new (0.4 to 0.32), as one reading.

vLLM writes one series per engine (data parallel rank) and model name. Requests and tokens are
summed over them; KV use is the fullest engine's, because that one makes a request wait.
"""

import math
from collections.abc import Iterable, Mapping

from trioroute.scrape.exposition import Sample, scan
from trioroute.scrape.page import PageReading

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
KV = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
TOKENS = ("vllm:generation_tokens_total", "vllm:generation_tokens")
SLEEP = "vllm:engine_sleep_state"

CACHE = "vllm:cache_config_info"

WANTED: tuple[str, ...] = (RUNNING, WAITING, *KV, *TOKENS, SLEEP, CACHE)

COUNT_MAX = 2**53
"""Beyond it a float counts no more; such a value is unknown (and would not fit the log)."""

Series = Mapping[frozenset[tuple[str, str]], float | None]


def read(page: bytes) -> PageReading:
    """One whole page. Text without vLLM's names is all unknown and no error.

    Raises ``UnreadablePage`` if it is not Prometheus text at all.
    """
    return fold(scan(page, WANTED))


def fold(samples: Iterable[Sample]) -> PageReading:
    """The reading in these samples.

    NaN, Inf, negative, unreadable and missing values are unknown. One unknown engine makes the sum
    unknown, and so does an engine that appears in only one of running and waiting: half a sum
    would make a busy replica look idle.
    """
    series: dict[str, dict[frozenset[tuple[str, str]], float | None]] = {}
    for sample in samples:
        of_name = series.setdefault(sample.name, {})
        key = frozenset(sample.labels.items())
        value = sample.value
        if key in of_name:  # not legal; the larger one, so that order does not matter
            before = of_name[key]
            value = None if value is None or before is None else max(value, before)
        of_name[key] = value
    running, waiting = series.get(RUNNING, {}), series.get(WAITING, {})
    both = running.keys() | waiting.keys()
    return PageReading(
        running=_sum(running) if len(running) == len(both) else None,
        waiting=_sum(waiting) if len(waiting) == len(both) else None,
        kv_m=_fullest(_first(series, KV)),
        tokens=_sum(_first(series, TOKENS)),
        asleep=_asleep(series.get(SLEEP, {})),
        cache_tokens=_cache_tokens(series.get(CACHE, {})),
    )


def _first(series: Mapping[str, Series], names: tuple[str, ...]) -> Series:
    """The series of the first of these names that is on the page."""
    return next((series[name] for name in names if name in series), {})


def _known(value: float | None, most: float) -> float | None:
    """The value, unless it is missing, negative or more than ``most`` (NaN is never in between)."""
    return value if value is not None and 0 <= value <= most else None


def _sum(series: Series) -> int | None:
    total = 0
    for value in series.values():
        known = _known(value, COUNT_MAX)
        if known is None:
            return None
        total += math.ceil(known)
    return total if series and total <= COUNT_MAX else None


def _fullest(series: Series) -> int | None:
    """The largest share (0 to 1) in thousandths."""
    largest = 0
    for value in series.values():
        known = _known(value, 1)
        if known is None:
            return None
        largest = max(largest, round(known * 1000))
    return largest if series else None


def _asleep(series: Series) -> bool:
    """Whether any engine reports a sleep level (RULES 6.11).

    ``awake = 0`` alone says nothing: all states are 0 until the engine first sets them.
    """
    return any(
        value == 1 and dict(labels).get("sleep_state", "awake") != "awake"
        for labels, value in series.items()
    )


def _cache_tokens(series: Series) -> int | None:
    """Tokens that fit into the KV cache, summed over the engines; one unknown makes it unknown.

    Releases that tell no ``kv_cache_size_tokens`` tell the number and size of blocks.
    """
    total = 0
    for key in series:
        labels = dict(key)
        told = _whole(labels.get("kv_cache_size_tokens"))
        if told is None:
            blocks, size = _whole(labels.get("num_gpu_blocks")), _whole(labels.get("block_size"))
            told = blocks * size if blocks is not None and size is not None else None
        if told is None:
            return None
        total += told
    return total if 0 < total <= COUNT_MAX else None


def _whole(text: str | None) -> int | None:
    """The number, unless it is none such as ``None``, or one that no engine has."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None
