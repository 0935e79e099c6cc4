"""Anthropic's messages, and tool calls that are demanded, as the clients read them."""

from typing import Any

import openai
import orjson
import pytest
import trio

from tests.engine.conftest import ClientOf, StartEngine
from tests.engine.test_api import events_of
from tests.engine.test_openai_client import client_of as openai_client
from trioroute.engine.tokens import answer_text

PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"enum": ["C", "F"]},
        "days": {"type": "integer", "minimum": 2},
        "where": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "note": {"type": "string"},
    },
    "required": ["city", "unit", "days", "where", "tags"],
}
FITTING = {"city": "simulated", "unit": "C", "days": 2, "where": {"x": 1}, "tags": ["simulated"]}
FUNCTION: Any = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
OTHER: Any = {"type": "function", "function": {"name": "other"}}
TOOL = {"name": "weather", "input_schema": PARAMETERS}
HELLO: list[Any] = [{"role": "user", "content": "hello"}]


def message(**rest: Any) -> dict[str, Any]:
    return {"model": "demo", "max_tokens": 100, "messages": HELLO, **rest}


async def test_a_message_is_anthropics(start_engine: StartEngine, client_of: ClientOf) -> None:
    client = await client_of(await start_engine(models=("demo",)))
    told = (await client.post("/v1/messages", json=message())).json()
    assert told["content"] == [{"type": "text", "text": answer_text(0, b"hello", 5)}]
    assert (told["type"], told["role"], told["model"]) == ("message", "assistant", "demo")
    assert (told["stop_reason"], told["stop_sequence"]) == ("end_turn", None)
    assert (told["usage"]["input_tokens"], told["usage"]["output_tokens"]) == (2, 5)
    short = (await client.post("/v1/messages", json=message(max_tokens=3))).json()
    assert (short["stop_reason"], short["usage"]["output_tokens"]) == ("max_tokens", 3)
    system = message(system=[{"type": "text", "text": "be brief"}], tools=[TOOL])
    counted = (await client.post("/v1/messages/count_tokens", json=system)).json()
    used = (await client.post("/v1/messages", json=system)).json()["usage"]["input_tokens"]
    assert counted == {"input_tokens": used}
    assert used > 40
    missing = await client.post("/v1/messages", json={"model": "demo", "messages": HELLO})
    assert missing.status_code == 400


async def test_a_streamed_message_is_named_events(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine(models=("demo",)))
    answer = await client.post("/v1/messages", json=message(stream=True))
    events = events_of(answer.text)
    names = [line[7:] for line in answer.text.splitlines() if line.startswith("event: ")]
    assert names == [event["type"] for event in events]
    assert names[:2] == ["message_start", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    said = [one["delta"]["text"] for one in events if one["type"] == "content_block_delta"]
    assert "".join(said) == answer_text(0, b"hello", 5)
    assert events[0]["message"]["usage"]["input_tokens"] == 2
    assert events[-2]["delta"]["stop_reason"] == "end_turn"
    assert events[-2]["usage"]["output_tokens"] == 5


async def test_errors_of_messages_are_anthropics(
    start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine(models=("demo",)))

    async def fails(path: str = "/v1/messages", **asked: Any) -> tuple[int, str, str]:
        answer = await client.post(path, json=message(**asked))
        told = answer.json()
        assert told["type"] == "error"
        assert set(told["error"]) == {"type", "message"}
        return answer.status_code, told["error"]["type"], told["error"]["message"]

    status, kind, text = await fails(model="other")
    assert (status, kind) == (404, "not_found_error")
    assert "does not exist" in text
    assert (await fails(max_tokens=0))[:2] == (400, "invalid_request_error")
    assert (await fails("/v1/messages/count_tokens", model="other"))[0] == 404
    for status, kind in ((503, "overloaded_error"), (500, "api_error"), (429, "rate_limit_error")):
        await client.post("/faults", json={"status": status})
        assert (await fails())[:2] == (status, kind)
    await client.post("/faults", json={"error_event": 503})
    text = (await client.post("/v1/messages", json=message(stream=True))).text
    assert text.startswith("event: error\ndata: ")
    assert orjson.loads(text.partition("data: ")[2])["error"]["type"] == "overloaded_error"
    chat = {"model": "demo", "messages": HELLO}
    assert "code" in (await client.post("/v1/chat/completions", json=chat)).json()["error"]


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}])
async def test_a_demanded_tool_is_used(
    choice: dict[str, str], start_engine: StartEngine, client_of: ClientOf
) -> None:
    client = await client_of(await start_engine(models=("demo",)))
    asked = message(tools=[TOOL], tool_choice=choice)
    told = (await client.post("/v1/messages", json=asked)).json()
    (block,) = told["content"]
    assert (block["type"], block["name"], block["input"]) == ("tool_use", "weather", FITTING)
    assert told["stop_reason"] == "tool_use"
    events = events_of((await client.post("/v1/messages", json=asked | {"stream": True})).text)
    assert events[1]["content_block"]["name"] == "weather"
    deltas = [one["delta"] for one in events if one["type"] == "content_block_delta"]
    pieces = [delta["partial_json"] for delta in deltas]
    assert orjson.loads("".join(pieces)) == FITTING
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "weather"}}]
)
async def test_a_demanded_function_is_called(choice: Any, start_engine: StartEngine) -> None:
    handle = await start_engine(models=("demo",))

    def talk() -> None:
        asked: dict[str, Any] = {"tools": [FUNCTION, OTHER], "tool_choice": choice}
        with openai_client(handle) as client:
            whole = client.chat.completions.create(model="demo", messages=HELLO, **asked)
            [call] = whole.choices[0].message.tool_calls or []
            assert call.type == "function"
            assert call.function.name == "weather"
            assert orjson.loads(call.function.arguments) == FITTING
            assert whole.choices[0].message.content is None
            assert whole.choices[0].finish_reason == "tool_calls"
            with client.chat.completions.stream(model="demo", messages=HELLO, **asked) as stream:
                done = stream.get_final_completion()
            [made] = done.choices[0].message.tool_calls or []
            assert made.type == "function"
            assert orjson.loads(made.function.arguments) == FITTING
            assert done.choices[0].finish_reason == "tool_calls"

    await trio.to_thread.run_sync(talk)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "weather"}])
async def test_a_demanded_function_is_called_in_a_response(
    choice: Any, start_engine: StartEngine
) -> None:
    handle = await start_engine(models=("demo",))
    tool: Any = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": None}

    def talk() -> None:
        asked: dict[str, Any] = {"tools": [tool], "tool_choice": choice, "input": "hello"}
        with openai_client(handle) as client:
            whole = client.responses.create(model="demo", **asked)
            [call] = whole.output
            assert call.type == "function_call"
            assert (call.name, orjson.loads(call.arguments)) == ("weather", FITTING)
            assert call.call_id
            assert (whole.status, whole.output_text) == ("completed", "")
            with client.responses.stream(model="demo", **asked) as stream:
                kinds = [event.type for event in stream]
                done = stream.get_final_response()
            [made] = done.output
            assert made.type == "function_call"
            assert orjson.loads(made.arguments) == FITTING
            assert "response.function_call_arguments.delta" in kinds
            assert "response.output_text.delta" not in kinds

    await trio.to_thread.run_sync(talk)


async def test_without_a_demand_the_model_answers_with_text(start_engine: StartEngine) -> None:
    handle = await start_engine(models=("demo",))

    def talk() -> None:
        with openai_client(handle) as client:
            for choice in ("auto", "none"):
                answer = client.chat.completions.create(
                    model="demo", messages=HELLO, tools=[FUNCTION], tool_choice=choice
                )
                assert answer.choices[0].message.content
                assert not answer.choices[0].message.tool_calls
            with pytest.raises(openai.BadRequestError, match="not among the tools"):
                client.chat.completions.create(
                    model="demo", messages=HELLO, tools=[OTHER], tool_choice=FUNCTION
                )

    await trio.to_thread.run_sync(talk)
