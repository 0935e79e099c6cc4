"""Slots, the waiting queue and the prefix cache, as clients notice them."""

from typing import Any

import httpx
import trio

from tests.engine.conftest import ClientOf, StartEngine, chat, until
from tests.engine.test_api import events_of


async def ask(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    await client.post("/v1/chat/completions", json=body)


async def test_the_ninth_request_on_eight_slots_waits(
    start_engine: StartEngine, client_of: ClientOf, nursery: trio.Nursery
) -> None:
    handle = await start_engine(max_running=8, decode_tokens_per_s=50.0)
    client = await client_of(handle)
    for number in range(9):
        nursery.start_soon(ask, client, chat(f"question {number}", max_tokens=1000))

    await until(lambda: len(handle.batch.running) == 8 and len(handle.batch.waiting) == 1)
    page = (await client.get("/metrics")).text.splitlines()
    labels = '{engine="0",model_name="simulated"}'
    assert f"vllm:num_requests_running{labels} 8.0" in page
    assert f"vllm:num_requests_waiting{labels} 1.0" in page
    assert (await client.get("/load")).json() == {"server_load": 9}
    nursery.cancel_scope.cancel()


async def test_a_full_queue_is_503_or_an_error_event_inside_a_200(
    start_engine: StartEngine, client_of: ClientOf, nursery: trio.Nursery
) -> None:
    handle = await start_engine(max_running=1, max_queued=2, decode_tokens_per_s=50.0)
    client = await client_of(handle)
    for _ in range(2):
        nursery.start_soon(ask, client, chat(max_tokens=1000))
    await until(lambda: len(handle.batch.running) + len(handle.batch.waiting) == 2)
    whole = await client.post("/v1/chat/completions", json=chat())
    assert whole.status_code == 503
    assert "retry-after" not in whole.headers
    assert "currently busy" in whole.json()["error"]["message"]
    stream = await client.post("/v1/chat/completions", json=chat(stream=True))
    assert stream.status_code == 200
    assert events_of(stream.text) == [whole.json()]
    assert stream.text.endswith("data: [DONE]\n\n")
    assert handle.batch.counters.rejections == 2
    nursery.cancel_scope.cancel()


async def test_a_second_prompt_with_the_same_prefix_is_answered_sooner(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine(prefill_tokens_per_s=8000.0))
    prefix = "x" * 4 * 4000
    began_s = trio.current_time()
    await client.post("/v1/chat/completions", json=chat(prefix + "one", max_tokens=1))
    first_s, began_s = trio.current_time() - began_s, trio.current_time()
    answer = await client.post("/v1/chat/completions", json=chat(prefix + "two", max_tokens=1))
    second_s = trio.current_time() - began_s
    assert first_s >= 0.5
    assert second_s < first_s / 2
    assert answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 4000
