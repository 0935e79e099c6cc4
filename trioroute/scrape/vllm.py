"""The vLLM dialect: its metric names, old and new (0.4 to 0.32), as one reading.

vLLM writes one series per engine (data parallel rank) and model name. Requests and tokens are
summed over them; KV use is the fullest engine's, because that one makes a request wait.
"""

from collections.abc import Iterable

from trioroute.scrape.exposition import Sample, scan
from trioroute.scrape.page import PageReading
from trioroute.scrape.series import (
    COUNT_MAX,
    Series,
    both_totals,
    by_name,
    first,
    fullest_m,
    total,
)

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
KV = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
TOKENS = ("vllm:generation_tokens_total", "vllm:generation_tokens")
SLEEP = "vllm:engine_sleep_state"

CACHE = "vllm:cache_config_info"

WANTED: tuple[str, ...] = (RUNNING, WAITING, *KV, *TOKENS, SLEEP, CACHE)


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
    series = by_name(samples)
    running, waiting = both_totals(series.get(RUNNING, {}), series.get(WAITING, {}))
    return PageReading(
        running=running,
        waiting=waiting,
        kv_m=fullest_m(first(series, KV)),
        tokens=total(first(series, TOKENS)),
        asleep=_asleep(series.get(SLEEP, {})),
        cache_tokens=_cache_tokens(series.get(CACHE, {})),
    )


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
    found = 0
    for key in series:
        labels = dict(key)
        told = _whole(labels.get("kv_cache_size_tokens"))
        if told is None:
            blocks, size = _whole(labels.get("num_gpu_blocks")), _whole(labels.get("block_size"))
            told = blocks * size if blocks is not None and size is not None else None
        if told is None:
            return None
        found += told
    return found if 0 < found <= COUNT_MAX else None


def _whole(text: str | None) -> int | None:
    """The number, unless it is none such as ``None``, or one that no engine has."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None
