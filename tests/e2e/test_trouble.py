"""Replicas in trouble, over real sockets: refusing, dying, garbage, errors in a 200, freezing."""

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.e2e.fleet import Fleet, chat, kinds_in, wait_for

COMPLETIONS = "/v1/chat/completions"


def read_stream(url: str, at_first: Callable[[], None] = lambda: None) -> tuple[bytes, bool]:
    """What a long stream brought, and whether it ended as a whole."""
    received = b""
    try:
        with httpx.stream(
            "POST", url + COMPLETIONS, json=chat(stream=True, max_tokens=200), timeout=10
        ) as answer:
            assert answer.status_code == 200
            for chunk in answer.iter_raw():
                if not received:
                    at_first()
                received += chunk
    except httpx.RemoteProtocolError:
        return received, False
    return received, True


FAULTS: list[dict[str, object]] = [
    {"status": 500},
    {"status": 502},
    {"status": 503, "retry_after": 1},
    {"status": 429, "retry_after": 1},
    {"die_before_headers": True},
    {"garbage": True},
    {"error_event": 500},
    {"error_event": 503},
]


def test_whatever_one_replica_does_before_its_first_byte_no_client_notices(fleet: Fleet) -> None:
    bad, good = fleet.engine(name="bad"), fleet.engine(name="good")
    router = fleet.router(
        retries_budget="1",
        eject_cooldown="100ms",
        eject_cooldown_max="100ms",
        probing_window="100ms",
    ).ready()
    for faults in FAULTS:
        wait_for("bad LIVE", lambda: router.replica("bad")["state"] == "LIVE")
        time.sleep(1.1)  # busy no more: RULES 6.2 passes a busy replica over
        bad.faults(**faults)
        attempts = 1
        for stream in (True, True, "error_event" in faults):
            answer = httpx.post(router.url + COMPLETIONS, json=chat(stream=stream), timeout=20)
            assert answer.status_code == 200, (faults, answer.text)
            assert answer.headers["x-trioroute-replica"] == good.name
            assert '"error"' not in answer.text
            attempts = max(attempts, int(answer.headers["x-trioroute-attempts"]))
        assert attempts == 2, f"{faults} was never met"
        bad.faults()
    router.quiet()
    assert {"Failed", "Ejected", "Probing", "Live"} <= kinds_in(router.log)
    router.verify()


def test_when_all_are_busy_the_replicas_own_answer_is_passed_on(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.engine()
    router = fleet.router().ready()
    for engine in fleet.engines:
        engine.faults(status=429, retry_after=2)
    answer = httpx.post(router.url + COMPLETIONS, json=chat())
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "2"
    assert answer.headers["x-trioroute-attempts"] == "2"
    assert {r["state"] for r in router.state()["replicas"]} == {"LIVE"}
    router.verify()


def test_a_stream_cut_midway_ends_with_an_error_and_never_as_whole(fleet: Fleet) -> None:
    only = fleet.engine()
    router = fleet.router().ready()
    only.faults(cut_after=3)
    received, whole = read_stream(router.url)
    assert not whole
    assert b"[DONE]" not in received
    assert b'"error"' in received
    router.quiet()
    assert "upstream_cut" in router.replay("--last", "1", "--json").stdout


def test_a_hanging_replica_runs_into_the_first_byte_limit(fleet: Fleet) -> None:
    only = fleet.engine()
    router = fleet.router(timeouts_first_byte="500ms").ready()
    only.faults(hang=True)
    begin = time.monotonic()
    answer = httpx.post(router.url + COMPLETIONS, json=chat(), timeout=40)
    assert answer.status_code == 504
    assert answer.json()["error"]["code"] == "first_byte_timeout"
    assert 0.5 <= time.monotonic() - begin < 30, "the default is 600 s"
    router.quiet()


def test_a_frozen_stream_ends_at_the_idle_limit(fleet: Fleet) -> None:
    only = fleet.engine("--decode-tokens-per-s=20")
    router = fleet.router(timeouts_idle="500ms").ready()
    received, whole = read_stream(router.url, at_first=lambda: only.faults(freeze=True))
    assert not whole
    assert b'"error"' in received
    router.quiet()
    assert "idle_timeout" in router.replay("--last", "1", "--json").stdout


def test_a_client_that_leaves_frees_the_replica(fleet: Fleet) -> None:
    only = fleet.engine("--decode-tokens-per-s=10")
    router = fleet.router().ready()
    with httpx.stream(
        "POST", router.url + COMPLETIONS, json=chat(stream=True, max_tokens=1500), timeout=20
    ) as answer:  # 150 s long
        chunks = answer.iter_raw()
        next(chunks)
        assert router.replica(only.name)["in_flight"] == 1
    wait_for("the slot freed", lambda: router.replica(only.name)["in_flight"] == 0, 20)
    wait_for("the engine idle", lambda: _nothing_running(only.url), 20)
    assert "client_gone" in router.replay("--last", "1", "--json").stdout


def _nothing_running(url: str) -> bool:
    lines = httpx.get(url + "/metrics").text.splitlines()
    running = [line for line in lines if line.startswith("vllm:num_requests_running{")]
    return bool(running) and all(line.endswith(" 0.0") for line in running)


def test_a_replica_killed_under_load_costs_no_client_an_error_but_those_streaming_on_it(
    fleet: Fleet,
) -> None:
    for _ in range(3):
        fleet.engine("--decode-tokens-per-s=400", "--max-running=32")
    router = fleet.router().ready()
    stop = threading.Event()
    errors: list[str] = []
    served = [0]

    def user(number: int) -> None:
        with httpx.Client(timeout=20) as client:
            turn = 0
            while not stop.is_set():
                turn += 1
                answer = client.post(
                    router.url + COMPLETIONS, json=chat(f"user {number} turn {turn}")
                )
                served[0] += 1
                if answer.status_code != 200:
                    errors.append(f"{answer.status_code} {answer.text}")

    with ThreadPoolExecutor(12) as pool:
        users = [pool.submit(user, number) for number in range(12)]
        time.sleep(1)
        fleet.engines[0].kill()
        time.sleep(2)
        stop.set()
        for one in users:
            with contextlib.suppress(httpx.RemoteProtocolError):
                one.result()
    assert errors == []
    assert served[0] > 50
    assert router.replica("gpu1")["state"] == "EJECTED"
    fleet.engines[0].start()
    fleet.engines[0].ready()
    assert router.replica("gpu1")["state"] == "EJECTED", "its cooldown is not over"
    router.quiet()
    router.verify()


def test_the_fallback_is_502_and_nobody_left_is_503_with_retry_after(fleet: Fleet) -> None:
    only = fleet.engine()
    router = fleet.router().ready()
    only.kill()
    wait_for("ejected", lambda: router.replica("gpu1")["state"] == "EJECTED")
    answer = httpx.post(router.url + COMPLETIONS, json=chat())
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_failed")
    assert answer.headers["x-trioroute-reason"] == "fallback"
    httpx.post(f"{router.admin}/replicas/gpu1/drain").raise_for_status()
    answer = httpx.post(router.url + COMPLETIONS, json=chat())
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_healthy_instances")
    assert 1 <= int(answer.headers["retry-after"]) <= 30
    assert httpx.get(router.url + "/health").status_code == 503
    assert httpx.get(router.admin + "/readyz").status_code == 503
