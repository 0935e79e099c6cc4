"""Engines that tell their load under plain names: which names, and where.

Names are those of each engine's own documentation; older ones come after the newer. None of these
engines was run by this project's authors: the pages in the tests are written after the documents.
"""

from collections.abc import Iterable

import attrs

from trioroute.scrape.exposition import Sample
from trioroute.scrape.page import PageReading
from trioroute.scrape.series import both_totals, by_name, first, fullest_m, total

METRICS = "/metrics"


@attrs.frozen(kw_only=True)
class Names:
    """The names of each figure, the first one on the page counts; an empty one is not told.

    ``same_load`` are labels of workers that share their requests, each telling all of them.
    """

    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    kv: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    path: str = METRICS
    same_load: frozenset[str] = frozenset()

    @property
    def wanted(self) -> tuple[str, ...]:
        return (*self.running, *self.waiting, *self.kv, *self.tokens)

    def fold(self, samples: Iterable[Sample]) -> PageReading:
        """The reading in these samples; what is missing or unreadable is unknown (RULES 3)."""
        series = by_name(samples, self.same_load)
        running, waiting = both_totals(first(series, self.running), first(series, self.waiting))
        return PageReading(
            running=running,
            waiting=waiting,
            kv_m=fullest_m(first(series, self.kv)),
            tokens=total(first(series, self.tokens)),
        )


SGLANG = Names(  # needs --enable-metrics
    running=("sglang:num_running_reqs",),
    waiting=("sglang:num_queue_reqs",),
    kv=("sglang:token_usage",),
    tokens=("sglang:generation_tokens_total",),
    same_load=frozenset({"tp_rank", "pp_rank", "moe_ep_rank"}),
)
LLAMACPP = Names(  # needs --metrics
    running=("llamacpp:requests_processing",),
    waiting=("llamacpp:requests_deferred",),
    kv=("llamacpp:kv_cache_usage_ratio",),
    tokens=("llamacpp:tokens_predicted_total",),
)
TGI = Names(
    running=("tgi_batch_current_size",),
    waiting=("tgi_queue_size",),
    tokens=("tgi_request_generated_tokens_sum",),
)
LMDEPLOY = Names(  # needs --enable-metrics
    running=("lmdeploy:num_requests_running",),
    waiting=("lmdeploy:num_requests_waiting",),
    kv=("lmdeploy:gpu_cache_usage_perc",),
    tokens=("lmdeploy:generation_tokens_total",),
)
TRTLLM = Names(  # trtllm-serve keeps a JSON list of its own at /metrics
    running=("trtllm_num_requests_running",),
    waiting=("trtllm_num_requests_waiting",),
    kv=("trtllm_kv_cache_utilization",),
    tokens=("trtllm_generation_tokens_total", "trtllm_generation_tokens"),
    path="/prometheus/metrics",
)
