"""The official client works against it (in a thread: its async form does not run on trio)."""

import openai
import pytest
import trio

from tests.engine.conftest import StartEngine
from trioroute.engine import EngineHandle
from trioroute.engine.tokens import answer_text


def client_of(handle: EngineHandle) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{handle.url}/v1", api_key="none", max_retries=0, timeout=10)


async def test_chat_whole_and_streamed(start_engine: StartEngine) -> None:
    handle = await start_engine(models=("demo",))
    expected = answer_text(0, b"hello", 5)

    def talk() -> None:
        with client_of(handle) as client:
            whole = client.chat.completions.create(
                model="demo", messages=[{"role": "user", "content": "hello"}]
            )
            assert whole.choices[0].message.content == expected
            assert whole.usage is not None
            assert whole.usage.completion_tokens == 5
            with client.chat.completions.create(
                model="demo",
                messages=[{"role": "user", "content": "hello"}],
                stream=True,
                stream_options={"include_usage": True},
            ) as stream:
                chunks = list(stream)
            said = [c.choices[0].delta.content or "" for c in chunks if c.choices]
            assert "".join(said) == expected
            usage = chunks[-1].usage
            assert usage is not None
            assert usage.total_tokens == 7
            assert usage.prompt_tokens_details is not None
            assert usage.prompt_tokens_details.cached_tokens == 0

    await trio.to_thread.run_sync(talk)


async def test_responses_embeddings_and_models(start_engine: StartEngine) -> None:
    handle = await start_engine(models=("demo",))

    def talk() -> None:
        with client_of(handle) as client:
            first = client.responses.create(model="demo", input="hello")
            assert first.output_text == answer_text(0, b"hello", 5)
            with client.responses.create(
                model="demo", input="more", previous_response_id=first.id, stream=True
            ) as stream:
                kinds = [event.type for event in stream]
            assert kinds.count("response.output_text.delta") == 5
            assert kinds[-1] == "response.completed"
            vectors = client.embeddings.create(model="demo", input=["a", "b"]).data
            assert len(vectors[0].embedding) == len(vectors[1].embedding) == 16
            assert [model.id for model in client.models.list()] == ["demo"]

    await trio.to_thread.run_sync(talk)


async def test_errors_arrive_as_the_clients_own_exceptions(start_engine: StartEngine) -> None:
    handle = await start_engine(models=("demo",))

    def talk() -> None:
        with client_of(handle) as client:
            with pytest.raises(openai.NotFoundError, match="does not exist"):
                client.completions.create(model="nope", prompt="a")
            handle_fault_status(client, 429)

    def handle_fault_status(client: openai.OpenAI, status: int) -> None:
        trio.from_thread.run_sync(lambda: handle.faults.set(status=status))
        with pytest.raises(openai.RateLimitError):
            client.completions.create(model="demo", prompt="a")

    await trio.to_thread.run_sync(talk)
