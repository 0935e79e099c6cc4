"""The official client, unchanged, through the router to simulated replicas."""

import httpx
import openai
import pytest

from tests.e2e.fleet import Fleet, chat


@pytest.fixture
def client_of(fleet: Fleet) -> openai.OpenAI:
    for _ in range(2):
        fleet.engine("--decode-tokens-per-s=500")
    router = fleet.router().ready()
    return openai.OpenAI(base_url=router.url + "/v1", api_key="unused", max_retries=0)


def test_chat_whole_and_streamed(client_of: openai.OpenAI, fleet: Fleet) -> None:
    whole = client_of.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "hello"}], max_tokens=5
    )
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 5
    stream = client_of.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "hello"}],
        max_tokens=5,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5
    fleet.routers[0].quiet()
    released = fleet.routers[0].replay("--last", "2", "--json")
    assert '"ok"' in released.stdout
    fleet.routers[0].verify()


def test_models_completions_embeddings_and_responses(client_of: openai.OpenAI) -> None:
    assert [model.id for model in client_of.models.list()] == ["tiny"]
    assert client_of.completions.create(model="tiny", prompt="a b", max_tokens=2).choices
    assert client_of.embeddings.create(model="tiny", input="some text").data
    first = client_of.responses.create(model="tiny", input="hello", max_output_tokens=4)
    for _ in range(6):  # RULES 5.11: each follow-up finds the replica that holds the response
        first = client_of.responses.create(
            model="tiny", input="more", previous_response_id=first.id, max_output_tokens=4
        )
    assert first.id.startswith("resp_")


def test_an_unknown_model_and_a_replicas_400_look_like_openais_errors(
    client_of: openai.OpenAI,
) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client_of.chat.completions.create(
            model="nobody-has-it", messages=[{"role": "user", "content": "x"}]
        )
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError):
        client_of.post("/chat/completions", body={"model": "tiny"}, cast_to=httpx.Response)


def test_headers_tell_where_a_request_went_and_the_decision_can_be_asked(fleet: Fleet) -> None:
    fleet.engine()
    fleet.engine()
    router = fleet.router().ready()
    answer = httpx.post(
        router.url + "/v1/chat/completions",
        json=chat(),
        headers={"x-request-id": "my-id.1", "x-session-id": "s1"},
    )
    assert answer.headers["x-request-id"] == "my-id.1"
    assert answer.headers["x-trioroute-replica"] in ("gpu1", "gpu2")
    assert answer.headers["x-trioroute-reason"] == "load"
    assert answer.headers["x-trioroute-attempts"] == "1"
    decision = answer.headers["x-trioroute-decision"]
    told = httpx.get(f"{router.admin}/decisions/{decision}").json()
    assert "gpu" in str(told)
    again = httpx.post(
        router.url + "/v1/chat/completions", json=chat(), headers={"x-session-id": "s1"}
    )
    assert again.headers["x-trioroute-reason"] == "affinity:session"
    assert again.headers["x-trioroute-replica"] == answer.headers["x-trioroute-replica"]
    by_id = router.replay("--request", "my-id.1")
    assert by_id.returncode == 0, by_id.stderr
    assert decision in by_id.stdout
