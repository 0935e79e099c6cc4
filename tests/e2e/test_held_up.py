"""A router that stood still: nobody else is to blame, and nobody is given up for it."""

import os
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.e2e.fleet import CLIENT, Fleet, RouterProcess, chat, wait_for

SHORT: dict[str, Any] = {"timeouts_first_byte": "1s", "timeouts_idle": "1s"}
STILL_S = 2.5


def stand_still(router: RouterProcess) -> None:
    os.kill(router.popen.pid, signal.SIGSTOP)
    try:
        time.sleep(STILL_S)
    finally:
        os.kill(router.popen.pid, signal.SIGCONT)


@pytest.mark.parametrize("prefill", [True, False], ids=["first_byte", "idle"])
def test_what_was_under_way_ends_whole_and_no_replica_is_held_to_account(
    fleet: Fleet, prefill: bool
) -> None:
    speed = ["--prefill-tokens-per-s=2000"] if prefill else ["--decode-tokens-per-s=50"]
    engine = fleet.engine(*speed)
    router = fleet.router(**SHORT).ready()
    body = chat("x" * (6000 if prefill else 10), max_tokens=20 if prefill else 200, stream=True)

    def ask() -> httpx.Response:
        return CLIENT.post(router.url + "/v1/chat/completions", json=body, timeout=30)

    with ThreadPoolExecutor(6) as clients:
        asked: list[Future[httpx.Response]] = [clients.submit(ask) for _ in range(6)]
        wait_for("all under way", lambda: router.replica(engine.name)["in_flight"] == 6)
        stand_still(router)
        for one in asked:
            answer = one.result()
            assert answer.status_code == 200
            assert answer.content.endswith(b"data: [DONE]\n\n")
    assert router.replica(engine.name)["state"] == "LIVE"
    assert router.stop() == 0
    router.verify()
