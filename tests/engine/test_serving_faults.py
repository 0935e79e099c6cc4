"""Each fault as a client meets it, over real sockets."""

import httpx
import pytest
import trio

from tests.engine.conftest import ClientOf, StartEngine, chat, until
from tests.engine.test_api import events_of
from trioroute.engine import EngineHandle

CHAT = "/v1/chat/completions"
STREAM = chat(max_tokens=10, stream=True)


async def is_up(client: httpx.AsyncClient) -> bool:
    """Whether it accepts connections."""
    try:
        return (await client.get("/health")).is_success
    except httpx.ConnectError:
        return False


async def read_until_broken(client: httpx.AsyncClient) -> tuple[int, httpx.TransportError]:
    """Events of a stream that breaks, and how it broke."""
    text = b""
    try:
        async with client.stream("POST", CHAT, json=STREAM) as answer:
            assert answer.status_code == 200
            async for piece in answer.aiter_raw():
                text += piece
    except httpx.TransportError as broken:
        return text.count(b"data: "), broken
    raise AssertionError(f"the stream ended whole: {text!r}")


async def test_faults_are_set_shown_and_cleared_over_http(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine())
    asked = {"status": 429, "retry_after": 2, "count": 1, "slow_factor": 2}
    assert (await client.post("/faults", json=asked)).json() == asked
    assert (await client.get("/faults")).json() == asked
    assert (await client.post("/faults", json={})).json() == {}
    assert (await client.get("/faults")).json() == {}
    wrong = await client.post("/faults", json={"hnag": True})
    assert wrong.status_code == 400
    assert "did you mean hang?" in wrong.json()["error"]["message"]
    assert (await client.post("/faults", content=b"{")).status_code == 400


async def test_a_status_hits_the_next_n_generations_with_retry_after(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    handle.faults.set(status=429, retry_after=2, count=2)
    assert (await client.get("/health")).status_code == 200
    first = await client.post(CHAT, json=chat())
    assert (first.status_code, first.headers["retry-after"]) == (429, "2")
    assert first.json()["error"]["code"] == 429
    assert (await client.post(CHAT, json=STREAM)).status_code == 429
    assert (await client.post(CHAT, json=chat())).status_code == 200


async def test_a_hanging_engine_never_answers_generations_but_health(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    handle.faults.set(hang=True)
    for body in (chat(), STREAM):
        with pytest.raises(httpx.ReadTimeout):
            await client.post(CHAT, json=body, timeout=0.15)
    assert (await client.get("/health")).status_code == 200


async def test_a_stream_is_reset_after_n_chunks(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    handle.faults.set(cut_after=3)
    events, broken = await read_until_broken(client)
    assert events == 3
    assert isinstance(broken, httpx.ReadError)
    await until(lambda: not handle.batch.running)


async def test_a_stream_ends_with_a_fin_but_no_last_chunk(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    handle.faults.set(cut_after=3, cut_fin=True)
    events, broken = await read_until_broken(client)
    assert events == 3
    assert isinstance(broken, httpx.RemoteProtocolError)


async def test_a_cut_before_the_first_chunk_leaves_the_head_only(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine()
    handle.faults.set(cut_after=0, cut_fin=True)
    events, _ = await read_until_broken(await client_of(handle))
    assert events == 0


async def test_a_whole_answer_is_cut_in_the_middle_of_its_body(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    handle.faults.set(cut_after=1, cut_fin=True)
    with pytest.raises(httpx.RemoteProtocolError, match="peer closed connection"):
        await client.post(CHAT, json=chat())


@pytest.mark.parametrize("code", [503, 500])
async def test_an_error_event_comes_inside_a_200(
    start_engine: StartEngine, client_of: ClientOf, code: int
) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    handle.faults.set(error_event=code)
    answer = await client.post(CHAT, json=STREAM)
    assert answer.status_code == 200
    assert [event["error"]["code"] for event in events_of(answer.text)] == [code]
    assert answer.text.endswith("data: [DONE]\n\n")
    assert (await client.post(CHAT, json=chat())).status_code == code


async def test_an_abort_ends_cleanly_with_its_finish_reason(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    handle.faults.set(abort_after=3)
    stream = await client.post(CHAT, json=STREAM)
    choices = [event["choices"][0] for event in events_of(stream.text)]
    assert [choice["finish_reason"] for choice in choices] == [None] * 4 + ["abort"]
    assert stream.text.endswith("data: [DONE]\n\n")
    whole = (await client.post(CHAT, json=chat(max_tokens=10))).json()
    assert whole["choices"][0]["finish_reason"] == "abort"
    assert len(whole["choices"][0]["message"]["content"]) == 3 * 4
    assert whole["usage"]["completion_tokens"] == 3
    assert handle.batch.counters.finished["abort"] == 2
    assert not handle.batch.running


async def test_garbage_is_no_http(start_engine: StartEngine, client_of: ClientOf) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    handle.faults.set(garbage=True)
    with pytest.raises(httpx.RemoteProtocolError, match="illegal"):
        await client.post(CHAT, json=chat())


async def test_it_dies_before_the_headers(start_engine: StartEngine, client_of: ClientOf) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    handle.faults.set(die_before_headers=True, count=1)
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        await client.post(CHAT, json=chat())
    assert (await client.post(CHAT, json=chat())).status_code == 200


async def test_connections_are_refused_for_a_while_also_the_kept_ones(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    assert (await client.get("/health")).status_code == 200
    answer = await client.post("/faults", json={"refuse": True, "refuse_s": 0.3})
    assert answer.headers["connection"] == "close"
    assert not await is_up(client)
    await until(lambda: handle.faults.now.shown() == {})
    assert await is_up(client)


async def test_clearing_the_faults_ends_a_refusal_at_once(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    handle.faults.set(refuse=True, refuse_s=60)
    await trio.testing.wait_all_tasks_blocked()
    assert not await is_up(client)
    handle.faults.clear()
    await trio.testing.wait_all_tasks_blocked()
    assert await is_up(client)


async def test_a_frozen_model_stalls_streams_while_the_server_answers(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine(decode_tokens_per_s=200.0)
    client = await client_of(handle)
    asked = chat(max_tokens=100, stream=True)
    async with client.stream("POST", CHAT, json=asked) as answer:
        await until(lambda: handle.batch.counters.generation_tokens > 3)
        handle.faults.set(freeze=True)
        tokens = handle.batch.counters.generation_tokens
        with pytest.raises(httpx.ReadTimeout):
            await client.post(CHAT, json=chat(), timeout=0.15)
        assert (await client.get("/health")).status_code == 200
        assert gauge(await client.get("/metrics"), "num_requests_running") == 1
        assert gauge(await client.get("/metrics"), "num_requests_waiting") == 0
        assert handle.batch.counters.generation_tokens == tokens < 100
        handle.faults.clear()
        assert (await answer.aread()).endswith(b"data: [DONE]\n\n")
    assert handle.batch.counters.generation_tokens == 100


def gauge(page: httpx.Response, name: str) -> float:
    line = next(one for one in page.text.splitlines() if one.startswith(f"vllm:{name}{{"))
    return float(line.split()[-1])


async def test_the_metrics_page_is_slow_broken_or_of_another_engine(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    handle.faults.set(metrics_delay_ms=60_000)
    with pytest.raises(httpx.ReadTimeout):
        await client.get("/metrics", timeout=0.1)
    handle.faults.set(metrics_status=500)
    assert (await client.get("/metrics")).status_code == 500
    handle.faults.set(metrics_names="unknown")
    page = (await client.get("/metrics")).text
    assert "vllm:" not in page
    assert "num_requests_running" in page


async def test_a_sleeping_engine_says_so(start_engine: StartEngine, client_of: ClientOf) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    handle.faults.set(sleep=True)
    page = (await client.get("/metrics")).text
    states = {
        line.split('sleep_state="')[1].split('"')[0]: float(line.split()[-1])
        for line in page.splitlines()
        if line.startswith("vllm:engine_sleep_state{")
    }
    assert states == {"awake": 0, "weights_offloaded": 1, "discard_all": 0}


async def test_a_slow_factor_stretches_generation(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle: EngineHandle = await start_engine(decode_tokens_per_s=200.0)
    client = await client_of(handle)
    handle.faults.set(slow_factor=10)
    began_s = trio.current_time()
    await client.post(CHAT, json=chat(max_tokens=6))
    assert trio.current_time() - began_s >= 5 * 10 / 200
