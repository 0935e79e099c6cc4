"""The API over real sockets, in vLLM's shapes."""

from typing import Any

import orjson
import pytest
import trio

from tests.engine.conftest import ClientOf, StartEngine, chat, until
from trioroute.engine.tokens import answer_text

JSON = {"content-type": "application/json"}


def events_of(text: str) -> list[dict[str, Any]]:
    """The JSON of each `data:` line, without [DONE]."""
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return [orjson.loads(line) for line in lines if line != "[DONE]"]


async def test_a_chat_answer_has_vllms_shape_and_usage(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine(models=("demo",), seed=3))
    answer = await client.post("/v1/chat/completions", json=chat("hello", model="demo"))
    body = answer.json()
    assert answer.headers["server"] == "uvicorn"
    assert body["id"].startswith("chatcmpl-")
    assert body["object"] == "chat.completion"
    assert body["model"] == "demo"
    choice = body["choices"][0]
    assert choice["message"]["content"] == answer_text(3, b"hello", 5)
    assert choice["finish_reason"] == "stop"
    assert body["usage"]["prompt_tokens"] == 2
    assert body["usage"]["completion_tokens"] == 5
    assert body["usage"]["total_tokens"] == 7
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


async def test_a_chat_stream_is_role_then_one_event_per_token_then_usage_then_done(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine())
    asked = chat(max_tokens=4, stream=True, stream_options={"include_usage": True})
    answer = await client.post("/v1/chat/completions", json=asked)
    events = events_of(answer.text)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.text.endswith("data: [DONE]\n\n")
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    texts = [event["choices"][0]["delta"]["content"] for event in events[1:5]]
    assert "".join(texts) == answer_text(0, b"hello", 4)
    reasons = [event["choices"][0]["finish_reason"] for event in events[:5]]
    assert reasons == [None, None, None, None, "length"]
    assert events[5]["choices"] == []
    assert events[5]["usage"]["completion_tokens"] == 4
    assert len(events) == 6
    assert {event["id"] for event in events} == {events[0]["id"]}


async def test_the_head_of_a_stream_comes_before_the_first_token(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine(prefill_tokens_per_s=0.1)
    client = await client_of(handle)
    with trio.fail_after(40):
        async with client.stream("POST", "/v1/chat/completions", json=chat(stream=True)) as answer:
            assert answer.status_code == 200
            await until(lambda: len(handle.batch.running) == 1)
            assert handle.batch.counters.generation_tokens == 0


async def test_usage_comes_with_every_event_if_asked_for(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine())
    asked = chat(max_tokens=2, stream=True, stream_options={"continuous_usage_stats": True})
    events = events_of((await client.post("/v1/chat/completions", json=asked)).text)
    assert [event["usage"]["prompt_tokens"] for event in events] == [2, 2, 2]
    assert events[0]["usage"]["completion_tokens"] == 0
    assert events[2]["usage"]["completion_tokens"] == 2


async def test_an_incoming_request_id_becomes_the_answers_id(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine())
    mine = {"x-request-id": "mine-1"}
    one = await client.post("/v1/chat/completions", json=chat(), headers=mine)
    other = await client.post("/v1/completions", json={"prompt": "a"}, headers=mine)
    assert one.json()["id"] == "chatcmpl-mine-1"
    assert other.json()["id"] == "cmpl-mine-1"


async def test_completions_answer_each_prompt_as_its_own_choice(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine())
    asked = {"prompt": ["one", "two"], "max_tokens": 3}
    body = (await client.post("/v1/completions", json=asked)).json()
    assert body["object"] == "text_completion"
    texts = [choice["text"] for choice in body["choices"]]
    assert texts == [answer_text(0, b"one", 3), answer_text(0, b"two", 3)]
    assert body["usage"]["completion_tokens"] == 6

    events = events_of((await client.post("/v1/completions", json=asked | {"stream": True})).text)
    for index, text in enumerate(texts):
        own = [event["choices"][0] for event in events if event["choices"][0]["index"] == index]
        assert "".join(choice["text"] for choice in own) == text
        assert own[-1]["finish_reason"] == "length"


async def test_completions_accept_token_ids(start_engine: StartEngine, client_of: ClientOf) -> None:
    client = await client_of(await start_engine())
    for prompt, tokens in (([1, 2, 3], 3), ([[1, 2], [3, 4, 5]], 5)):
        body = (await client.post("/v1/completions", json={"prompt": prompt})).json()
        assert body["usage"]["prompt_tokens"] == tokens


async def test_a_response_continues_the_one_this_replica_remembers(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine(block_tokens=1))
    first = (await client.post("/v1/responses", json={"input": "question"})).json()
    assert first["id"].startswith("resp_")
    assert first["status"] == "completed"
    assert first["output"][0]["content"][0]["text"] == answer_text(0, b"question", 5)
    again = {"input": "more", "previous_response_id": first["id"], "stream": True}
    answer = await client.post("/v1/responses", json=again)
    events = events_of(answer.text)
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] == "response.completed"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    usage = events[-1]["response"]["usage"]
    assert usage["input_tokens"] == 2 + 5 + 1
    assert usage["input_tokens_details"]["cached_tokens"] == 7
    assert (await client.get(f"/v1/responses/{first['id']}")).json() == first


async def test_a_response_of_another_replica_is_not_found(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine())
    asked = {"input": "more", "previous_response_id": "resp_elsewhere"}
    answer = await client.post("/v1/responses", json=asked)
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == "Response with id 'resp_elsewhere' not found."
    assert (await client.get("/v1/responses/resp_elsewhere")).status_code == 404


async def test_embeddings_are_stable_and_generate_nothing(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    handle = await start_engine()
    client = await client_of(handle)
    asked = {"input": ["same", "same", "else"]}
    body = (await client.post("/v1/embeddings", json=asked)).json()
    same, again, other = (one["embedding"] for one in body["data"])
    assert same == again != other
    assert body["usage"]["prompt_tokens"] == 3
    assert handle.batch.counters.generation_tokens == 0
    assert handle.batch.counters.finished["stop"] == 3


async def test_the_small_paths_answer_as_vllm_does(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine(models=("a", "b"), kv_tokens=2048))
    for path in ("/health", "/ping"):
        answer = await client.get(path)
        assert (answer.status_code, answer.content) == (200, b"")
    assert (await client.get("/version")).json() == {"version": "0.32.0"}
    assert (await client.get("/load")).json() == {"server_load": 0}
    models = (await client.get("/v1/models")).json()["data"]
    assert [model["id"] for model in models] == ["a", "b"]
    assert models[0]["max_model_len"] == 2048
    tokens = (await client.post("/tokenize", json={"prompt": "12345"})).json()
    assert tokens["count"] == len(tokens["tokens"]) == 2
    same = (await client.post("/tokenize", json=chat("12345"))).json()
    assert same["tokens"] == tokens["tokens"]


WRONG: list[tuple[str, bytes, int, str, str | None]] = [
    ("chat/completions", b'{"messages":', 400, "JSON decode error", "body.12"),
    ("chat/completions", b"", 400, "Field required", "body"),
    ("chat/completions", b"[]", 400, "valid dictionary", "body"),
    ("chat/completions", b"{}", 400, "Field required", "body.messages"),
    ("chat/completions", b'{"messages":["x"]}', 400, "list of objects", "body.messages"),
    ("chat/completions", b'{"model":"nope","messages":[]}', 404, "`nope` does not exist", "model"),
    ("chat/completions", b'{"model":7,"messages":[]}', 400, "be a string", "body.model"),
    ("chat/completions", b'{"messages":[],"max_tokens":0}', 400, "at least 1", "max_tokens"),
    ("chat/completions", b'{"messages":[],"max_tokens":"9"}', 400, "int", "body.max_tokens"),
    ("chat/completions", b'{"messages":[],"max_tokens":99999}', 400, "greater than", "max_tokens"),
    ("chat/completions", b'{"messages":[],"temperature":9}', 400, "in [0, 2]", "temperature"),
    ("completions", b"{}", 400, "Field required", "body.prompt"),
    ("completions", b'{"prompt":{}}', 400, "text or token ids", "body.prompt"),
    ("completions", b'{"prompt":"%b"}' % (b"x" * 4100), 400, "maximum context", "input_tokens"),
    ("responses", b"{}", 400, "Field required", "body.input"),
    ("embeddings", b"{}", 400, "Field required", "body.input"),
    ("embeddings", b'{"input":"%b"}' % (b"x" * 4100), 400, "maximum context", "input_tokens"),
]


@pytest.mark.parametrize(("path", "body", "status", "told", "param"), WRONG)
async def test_wrong_bodies_get_vllms_errors(
    start_engine: StartEngine,
    client_of: ClientOf,
    path: str,
    body: bytes,
    status: int,
    told: str,
    param: str | None,
) -> None:
    client = await client_of(await start_engine(kv_tokens=1024))
    answer = await client.post(f"/v1/{path}", content=body, headers=JSON)
    error = answer.json()["error"]
    assert answer.status_code == error["code"] == status
    assert told in error["message"]
    assert error["param"] == param


async def test_an_unknown_model_is_json_also_for_a_stream(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine(models=("demo",)))
    answer = await client.post("/v1/chat/completions", json=chat(model="nope", stream=True))
    assert answer.status_code == 404
    assert answer.json()["error"] == {
        "message": "The model `nope` does not exist. Valid aliases: demo.",
        "type": "NotFoundError",
        "param": "model",
        "code": 404,
    }


async def test_unknown_paths_methods_and_content_types(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine())
    missing = await client.get("/v1/nothing")
    assert (missing.status_code, missing.json()) == (404, {"detail": "Not Found"})
    wrong = await client.get("/v1/chat/completions")
    assert (wrong.status_code, wrong.json()) == (405, {"detail": "Method Not Allowed"})
    assert wrong.headers["allow"] == "POST"
    text = await client.post(
        "/v1/completions", content=b"{}", headers={"content-type": "text/plain"}
    )
    assert text.status_code == 400
    assert "Only 'application/json' is allowed" in text.json()["error"]["message"]
