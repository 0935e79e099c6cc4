"""The metrics page, read as Prometheus reads it."""

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.engine.conftest import ClientOf, StartEngine, chat, until

LABELS = {"engine": "0", "model_name": "demo"}


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    """The one sample with this name and exactly these labels beside engine and model."""
    found = [
        sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name == f"vllm:{name}" and sample.labels == LABELS | labels
    ]
    assert len(found) == 1, f"{name} {labels}: {found}"
    return found[0]


async def test_the_page_has_vllms_names_labels_and_types(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine(models=("demo", "alias"), block_tokens=16, kv_tokens=1600)
    client = await client_of(handle)
    prompt = "x" * 640
    for _ in range(2):
        await client.post("/v1/chat/completions", json=chat(prompt, max_tokens=3))
    await client.post("/v1/chat/completions", json=chat("short"))
    page = await client.get("/metrics")
    assert page.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"
    families = {one.name: one for one in text_string_to_metric_families(page.text)}

    assert value(families, "num_requests_running") == 0
    assert value(families, "num_requests_waiting") == 0
    assert value(families, "num_requests_waiting_by_reason", reason="capacity") == 0
    assert value(families, "kv_cache_usage_perc") == 0
    assert value(families, "generation_tokens_total") == 3 + 3 + 5
    assert value(families, "prompt_tokens_total") == 160 + 160 + 2
    assert value(families, "prompt_tokens_cached_total") == 159
    assert value(families, "prefix_cache_queries_total") == 160 + 160 + 2
    assert value(families, "prefix_cache_hits_total") == 159
    assert value(families, "num_preemptions_total") == 0
    for reason, count in {"length": 2, "stop": 1, "abort": 0, "error": 0}.items():
        assert value(families, "request_success_total", finished_reason=reason) == count
    for state, on in {"awake": 1, "weights_offloaded": 0, "discard_all": 0}.items():
        assert value(families, "engine_sleep_state", sleep_state=state) == on
    for histogram in ("time_to_first_token_seconds", "e2e_request_latency_seconds"):
        assert families[f"vllm:{histogram}"].type == "histogram"
        assert value(families, f"{histogram}_count") == 3
        assert value(families, f"{histogram}_bucket", le="+Inf") == 3
    config = families["vllm:cache_config_info"].samples[0].labels
    assert (config["block_size"], config["num_gpu_blocks"]) == ("16", "100")
    assert families["vllm:generation_tokens"].type == "counter"
    assert families["vllm:num_requests_running"].type == "gauge"


async def test_label_order_and_numbers_are_written_as_vllm_writes_them(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine(models=("demo",)))
    page = (await client.get("/metrics")).text.splitlines()
    assert 'vllm:num_requests_running{engine="0",model_name="demo"} 0.0' in page
    ended = 'vllm:request_success_total{engine="0",finished_reason="stop",model_name="demo"} 0.0'
    assert ended in page


async def test_kv_usage_and_running_move_while_a_request_runs(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine(models=("demo",), kv_tokens=1600, decode_tokens_per_s=20.0)
    client = await client_of(handle)
    asked = chat("x" * 640, max_tokens=100, stream=True)
    async with client.stream("POST", "/v1/chat/completions", json=asked):
        await until(lambda: handle.batch.counters.generation_tokens > 0)
        page = (await client.get("/metrics")).text
        families = {one.name: one for one in text_string_to_metric_families(page)}
        assert value(families, "num_requests_running") == 1
        assert 0.1 <= value(families, "kv_cache_usage_perc") <= 0.2
