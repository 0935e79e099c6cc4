"""The /metrics page: vLLM's names, labels and buckets, read from the batch when it is asked for."""

import time
from collections.abc import Iterable, Mapping

import attrs
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from trioroute.engine.batch import Batch, Sequence
from trioroute.engine.faults import FaultDesk

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"

Family = GaugeMetricFamily | CounterMetricFamily

_TTFT_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_HISTOGRAMS = (
    ("time_to_first_token_seconds", "Histogram of time to first token in seconds.", _TTFT_S),
    ("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", _REQUEST_S),
    (
        "request_queue_time_seconds",
        "Histogram of time spent in WAITING phase for request.",
        _REQUEST_S,
    ),
)


@attrs.define(eq=False)
class Latencies:
    """Histograms of one replica; buckets as captured from vLLM 0.32.0."""

    model: str
    registry: CollectorRegistry = attrs.field(factory=CollectorRegistry)
    _children: dict[str, Histogram] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        """Registers the histograms and keeps their only child each."""
        for name, text, buckets in _HISTOGRAMS:
            histogram = Histogram(
                f"vllm:{name}",
                text,
                ("engine", "model_name"),
                buckets=buckets,
                registry=self.registry,
            )
            self._children[name] = histogram.labels(engine="0", model_name=self.model)

    def observe(self, sequence: Sequence, now_s: float) -> None:
        """Called after each step for each sequence that moved on."""
        if sequence.first_token_s == now_s:
            waited_s = now_s - sequence.arrived_s
            self._children["time_to_first_token_seconds"].observe(waited_s)
        if sequence.done:
            self._children["e2e_request_latency_seconds"].observe(now_s - sequence.arrived_s)
            queued_s = (sequence.admitted_s or now_s) - sequence.arrived_s
            self._children["request_queue_time_seconds"].observe(queued_s)


@attrs.define(eq=False)
class BatchCollector(Collector):
    """Gauges and counters from the batch's state at the moment of the scrape."""

    batch: Batch
    desk: FaultDesk
    started_s: float = attrs.field(factory=time.time)

    @property
    def _labels(self) -> dict[str, str]:
        return {"engine": "0", "model_name": self.batch.settings.models[0]}

    def collect(self) -> Iterable[Family]:
        """Every family but the histograms."""
        yield from self._gauges()
        yield from self._counters()
        yield self._cache_config()

    def _gauges(self) -> Iterable[Family]:
        batch, waiting = self.batch, len(self.batch.waiting)
        yield self._gauge(
            "num_requests_running",
            "Number of requests in model execution batches.",
            len(batch.running),
        )
        yield self._gauge(
            "num_requests_waiting", "Number of requests waiting to be processed.", waiting
        )
        yield self._gauges_by(
            "num_requests_waiting_by_reason",
            "Number of waiting requests by reason.",
            "reason",
            {"capacity": waiting, "deferred": 0},
        )
        asleep = self.desk.now.sleep
        yield self._gauges_by(
            "engine_sleep_state",
            "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is "
            "awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep "
            "level 2.",
            "sleep_state",
            {"awake": not asleep, "weights_offloaded": asleep, "discard_all": 0},
        )
        yield self._gauge(
            "kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", batch.kv_usage
        )

    def _counters(self) -> Iterable[Family]:
        totals = self.batch.counters
        for name, text, value in (
            (
                "prefix_cache_queries",
                "Prefix cache queries, in terms of number of queried tokens.",
                totals.cache_queries,
            ),
            (
                "prefix_cache_hits",
                "Prefix cache hits, in terms of number of cached tokens.",
                totals.cache_hits,
            ),
            (
                "num_preemptions",
                "Cumulative number of preemption from the engine.",
                totals.preemptions,
            ),
            ("prompt_tokens", "Number of prefill tokens processed.", totals.prompt_tokens),
            (
                "prompt_tokens_cached",
                "Number of cached prompt tokens (local + external).",
                totals.cached_tokens,
            ),
            (
                "generation_tokens",
                "Number of generation tokens processed.",
                totals.generation_tokens,
            ),
        ):
            yield self._counter(name, text, self._labels, {None: value})
        yield self._counter(
            "request_success",
            "Count of successfully processed requests.",
            self._labels,
            totals.finished,
            by="finished_reason",
        )
        yield self._counter(
            "admission_rejections",
            "Number of admission attempts rejected by a queue limit, by reason.",
            {"model_name": self.batch.settings.models[0]},
            {"max_num_queued_reqs": totals.rejections, "max_num_queued_tokens": 0},
            by="reason",
        )

    def _cache_config(self) -> Family:
        settings = self.batch.settings
        labels = {
            "engine": "0",
            "block_size": str(settings.block_tokens),
            "num_gpu_blocks": str(self.batch.kv_blocks),
            "kv_cache_size_tokens": str(settings.kv_tokens),
            "enable_prefix_caching": str(settings.cache_tokens > 0),
        }
        family = GaugeMetricFamily(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            labels=tuple(labels),
        )
        family.add_metric(tuple(labels.values()), 1)
        return family

    def _gauge(self, name: str, text: str, value: float) -> Family:
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=tuple(self._labels))
        family.add_metric(tuple(self._labels.values()), value)
        return family

    def _gauges_by(self, name: str, text: str, by: str, values: Mapping[str, float]) -> Family:
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=(*self._labels, by))
        for label, value in values.items():
            family.add_metric((*self._labels.values(), label), float(value))
        return family

    def _counter(
        self,
        name: str,
        text: str,
        labels: Mapping[str, str],
        values: Mapping[str, int] | Mapping[None, int],
        by: str | None = None,
    ) -> Family:
        names = tuple(labels) if by is None else (*labels, by)
        family = CounterMetricFamily(f"vllm:{name}", text, labels=names)
        for label, value in values.items():
            series = (*labels.values(),) if label is None else (*labels.values(), label)
            family.add_metric(series, value, created=self.started_s)
        return family


def metrics_page(latencies: Latencies, collector: BatchCollector) -> bytes:
    """The whole page; with the fault metrics_names = unknown every name is one no dialect knows."""
    page = generate_latest(collector) + generate_latest(latencies.registry)
    if collector.desk.now.metrics_names == "unknown":
        page = page.replace(b"vllm:", b"llm_next:")
    return page
