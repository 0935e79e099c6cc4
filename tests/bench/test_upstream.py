"""The fake replica answers what the prompt asks for, and looks like vLLM."""

import itertools
import json
import re
import time
from typing import Any

import httpx
import pytest

from tests.bench.leave import median_ms
from tests.bench.load import Generator, Load, until
from tests.bench.upstream import MODEL, Upstream
from trioroute.scrape.vllm import read


def ask(replicas: Upstream, spec: str, **more: Any) -> httpx.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": f"[[{spec}]] hello"}], **more}
    return httpx.post(f"{replicas.urls[0]}/v1/chat/completions", json=body)


def events_of(text: str) -> list[str]:
    return [event.removeprefix("data: ") for event in text.split("\n\n") if event]


@pytest.mark.parametrize("length", [400, 1024, 300_000])
def test_a_json_body_has_the_length_that_was_asked(replicas: Upstream, length: int) -> None:
    answer = ask(replicas, f"reply={length}")
    assert len(answer.content) == length
    told = answer.json()
    assert told["choices"][0]["message"]["content"].startswith("[t=")
    assert told["usage"]["total_tokens"] == 18


def test_a_stream_has_its_events_its_finish_and_done(replicas: Upstream) -> None:
    answer = ask(replicas, "chunks=5 bytes=300 gap_us=1000")
    *tokens, finish, done = events_of(answer.text)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [len(f"data: {token}\n\n") for token in tokens] == [300] * 5
    assert all("[t=" in json.loads(token)["choices"][0]["delta"]["content"] for token in tokens)
    assert json.loads(finish)["choices"][0]["finish_reason"] == "stop"
    assert done == "[DONE]"


def test_marks_are_the_monotonic_clock_at_the_time_of_sending(replicas: Upstream) -> None:
    before = time.monotonic_ns()
    text = ask(replicas, "chunks=3 first_us=50000 gap_us=20000").text
    marks = [int(mark) for mark in re.findall(r"\[t=(\d+)\]", text)]
    assert marks[0] - before >= 50_000_000
    assert all(b - a >= 10_000_000 for a, b in itertools.pairwise(marks))
    assert marks[-1] <= time.monotonic_ns()


def test_without_a_line_of_its_own_the_request_says_whether_it_streams(replicas: Upstream) -> None:
    url = f"{replicas.urls[1]}/v1/chat/completions"
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
    assert len(httpx.post(url, json=body).content) == 1024
    assert len(events_of(httpx.post(url, json={**body, "stream": True}).text)) == 18


def test_a_large_prompt_is_taken_whole(replicas: Upstream) -> None:
    answer = ask(replicas, "reply=500", padding="x" * 2_000_000)
    assert len(answer.content) == 500


def test_it_looks_like_vllm(replicas: Upstream) -> None:
    with httpx.Client(base_url=replicas.urls[0]) as client:
        assert client.get("/health").status_code == 200
        assert client.get("/v1/models").json()["data"][0]["id"] == MODEL
        assert client.get("/get_server_info").json()["served_model_name"] == MODEL
        assert client.get("/nothing").status_code == 404
        reading = read(client.get("/metrics").content)
        assert (reading.running, reading.waiting, reading.kv_m) == (0, 0, 100)
        with client.stream(
            "POST", "/v1/chat/completions", json={"x": "[[chunks=9 first_us=600000000]]"}
        ):
            page = httpx.get(f"{replicas.urls[0]}/metrics").content
            assert read(page).running == 1
            assert read(httpx.get(f"{replicas.urls[1]}/metrics").content).running == 0


def test_it_tells_when_the_reader_of_a_silent_response_left(
    replicas: Upstream, generator: Generator
) -> None:
    spec = "chunks=10 first_us=600000000"
    load = Load(5, spec, stream=True, once=True, warmup_ms=0, ms=400, leave_ms=100)
    outcome = generator.run(replicas.ports[0], load)
    assert sorted(outcome.left) == [0, 1, 2, 3, 4]
    assert until(lambda: len(replicas.aborts()) == 5, 5)
    assert 0 <= median_ms(outcome.left, replicas.aborts(), 5) < 2000
    assert replicas.stats()["aborted"] == 5


def test_cutting_ends_what_runs_and_nothing_else(replicas: Upstream) -> None:
    with httpx.Client(base_url=replicas.urls[1]) as client:
        spec = {"x": "[[chunks=9 first_us=600000000]]"}
        with client.stream("POST", "/v1/chat/completions", json=spec) as answer:
            assert replicas.stats()["running"] == 1
            replicas.cut()
            assert until(lambda: replicas.stats()["running"] == 0, 5)
            with pytest.raises(httpx.RemoteProtocolError):
                answer.read()
    assert ask(replicas, "reply=500").status_code == 200
