"""Everyday traffic through the router to real vLLM: what a client sees, and what the log knows."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import openai
import pytest

from tests.e2e.fleet import RouterProcess, chat, wait_for
from tests.real.replica import Replica
from tests.real.talk import Told, ask, client_of, released

pytestmark = [pytest.mark.real_vllm, pytest.mark.timeout(600)]  # the first test waits for vLLM

Replicas = tuple[Replica, Replica]
RUNNING = "vllm:num_requests_running"


def test_answers_whole_and_streamed_are_the_ones_a_replica_gives(
    replicas: Replicas, client: openai.OpenAI
) -> None:
    with client_of(replicas[0].url) as direct:
        plain = ask(direct, "What is a router?", streamed=False)
    for streamed in (False, True):
        routed = ask(client, "What is a router?", streamed=streamed)
        assert routed.whole, routed
        assert routed.text == plain.text
        assert routed.usage == plain.usage
        assert routed.replica in ("vllm1", "vllm2")
        assert routed.reason == "load"


def test_completions_and_the_list_of_models(replicas: Replicas, client: openai.OpenAI) -> None:
    with client_of(replicas[0].url) as direct:
        texts = [
            each.completions.create(model="tiny", prompt="def f(", max_tokens=8, temperature=0)
            .choices[0]
            .text
            for each in (direct, client)
        ]
        lists = [
            [(model.id, model.model_dump()["max_model_len"]) for model in each.models.list()]
            for each in (direct, client)
        ]
    assert texts[0] == texts[1]
    assert lists[0] == lists[1] == [("tiny", 2048)]


def test_the_model_was_learned_from_the_replicas(router: RouterProcess) -> None:
    assert [replica["models"] for replica in router.state()["replicas"]] == [["tiny"], ["tiny"]]


@pytest.mark.parametrize(
    "path, body, status",
    [
        ("/v1/chat/completions", chat(max_tokens=9999), 400),
        ("/v1/chat/completions", chat("far too long " * 4000), 400),
        ("/v1/chat/completions", {"model": "tiny"}, 400),
        ("/v1/completions", {"model": "tiny", "prompt": "a", "temperature": -1}, 400),
        ("/v1/embeddings", {"model": "tiny", "input": "a"}, 404),
        ("/v1/no/such/path", {"model": "tiny"}, 404),
    ],
    ids=["max_tokens", "prompt", "messages", "temperature", "embeddings", "path"],
)
def test_an_error_of_vllm_reads_as_it_does_direct(
    replicas: Replicas, router: RouterProcess, path: str, body: dict[str, object], status: int
) -> None:
    direct = httpx.post(replicas[0].url + path, json=body, timeout=30)
    routed = httpx.post(router.url + path, json=body, timeout=30)
    assert (direct.status_code, routed.status_code) == (status, status)
    assert direct.content == routed.content


def test_the_official_client_raises_the_same_errors_as_direct(
    replicas: Replicas, client: openai.OpenAI
) -> None:
    with client_of(replicas[0].url) as direct:
        for each in (direct, client):
            with pytest.raises(openai.NotFoundError, match="nobody-has-it"):
                each.chat.completions.create(
                    model="nobody-has-it", messages=[{"role": "user", "content": "x"}]
                )
            with pytest.raises(openai.BadRequestError, match="max_tokens"):
                each.chat.completions.create(
                    model="tiny", messages=[{"role": "user", "content": "x"}], max_tokens=9999
                )


def test_headers_of_vllm_and_of_the_router_reach_the_client(
    replicas: Replicas, router: RouterProcess
) -> None:
    sent = {"x-request-id": "mine.1"}
    answer = httpx.post(router.url + "/v1/chat/completions", json=chat(), headers=sent)
    assert answer.headers["x-request-id"] == "mine.1"
    assert answer.json()["id"] == "chatcmpl-mine.1", "vLLM takes the id it is sent"
    assert answer.headers["server"] == "uvicorn"
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-trioroute-attempts"] == "1"
    assert answer.headers["x-trioroute-decision"].startswith("r1/")
    with httpx.stream("POST", router.url + "/v1/completions", json=_prompt()) as stream:
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["x-trioroute-replica"] in ("vllm1", "vllm2")
        assert stream.read().endswith(b"data: [DONE]\n\n")


def _prompt() -> dict[str, object]:
    return {"model": "tiny", "prompt": "a", "max_tokens": 4, "stream": True}


@pytest.mark.parametrize("streamed", [False, True])
def test_the_usage_that_vllm_reported_is_in_the_log(
    router: RouterProcess, client: openai.OpenAI, streamed: bool
) -> None:
    told = ask(client, "count me", streamed=streamed, tokens=23)
    assert told.usage is not None
    assert told.usage.completion_tokens == 23
    logged = released(router, told.decision)
    assert logged["outcome"] == "ok"
    assert logged["prompt_tokens"] == told.usage.prompt_tokens
    assert logged["completion_tokens"] == told.usage.completion_tokens


def test_scrapes_fill_running_waiting_and_kv(router: RouterProcess, client: openai.OpenAI) -> None:
    most = {"running": 0.0, "waiting": 0.0, "kv_usage": 0.0}

    def all_seen() -> bool:
        for replica in router.state()["replicas"]:
            for key in most:
                most[key] = max(most[key], replica[key] or 0)
        return all(most.values())

    with ThreadPoolExecutor(20) as pool:  # more than two replicas run at once (--max-num-seqs 8)
        asked = [
            pool.submit(ask, client, f"number {n}", streamed=True, tokens=400) for n in range(20)
        ]
        wait_for(f"running, waiting and kv_usage on the way: {most}", all_seen)
        told = [each.result() for each in asked]
    assert all(each.whole for each in told), told
    used = [each.replica for each in told]
    assert {used.count("vllm1"), used.count("vllm2")} == {10}, used
    assert most["running"] <= 8


def test_twelve_sessions_at_once_stay_where_they_are(
    router: RouterProcess, seen: list[str]
) -> None:
    turns = 6

    def session(number: int) -> list[Told]:
        with client_of(router.url) as client:
            return [
                ask(client, f"turn {turn}", streamed=turn % 2 == 0, session=f"s{number}")
                for turn in range(turns)
            ]

    with ThreadPoolExecutor(12) as pool:
        told = [answer for answers in pool.map(session, range(12)) for answer in answers]
    assert [each for each in told if not each.whole] == []
    assert {each.replica for each in told} == {"vllm1", "vllm2"}
    reasons = [each.reason for each in told]
    counted = {reason: reasons.count(reason) for reason in set(reasons)}
    seen.append(f"12 sessions, {turns} turns each: {counted}")
    assert set(counted) == {"load", "affinity:session"}
    assert counted["affinity:session"] > counted["load"]
    assert router.state()["pins"]["session"] == 12


def test_a_client_that_leaves_a_stream_frees_the_engine(
    replicas: Replicas, router: RouterProcess, client: openai.OpenAI, seen: list[str]
) -> None:
    raw = client.completions.with_raw_response.create(
        model="tiny",
        prompt="on and on",
        max_tokens=1900,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    decision = raw.headers["x-trioroute-decision"]
    replica = next(each for each in replicas if each.name == raw.headers["x-trioroute-replica"])
    stream = raw.parse()
    for _ in range(3):
        next(stream)
    wait_for("it runs", lambda: replica.gauge(RUNNING) == 1)
    stream.close()
    seen.append(f"stream left: engine idle after {_idle_after(replica):.3f} s")
    assert released(router, decision)["outcome"] == "client_gone"


def test_a_client_that_leaves_before_an_answer_frees_the_engine(
    replicas: Replicas, router: RouterProcess, seen: list[str]
) -> None:
    body = {"model": "tiny", "prompt": "a", "max_tokens": 1900, "ignore_eos": True}
    client = httpx.Client(timeout=2)

    def ask_and_leave() -> None:
        with suppress(httpx.ReadTimeout):
            client.post(router.url + "/v1/completions", json=body)

    asking = threading.Thread(target=ask_and_leave)
    asking.start()
    replica = wait_for(
        "it runs", lambda: next((each for each in replicas if each.gauge(RUNNING)), None)
    )
    asking.join()
    seen.append(f"unanswered request left: engine idle after {_idle_after(replica):.3f} s")
    client.close()
    router.quiet()
    assert '"client_gone"' in router.replay("--last", "1", "--json").stdout


def _idle_after(replica: Replica) -> float:
    left = time.monotonic()
    wait_for("the engine idle", lambda: replica.gauge(RUNNING) == 0, 1)
    return time.monotonic() - left
