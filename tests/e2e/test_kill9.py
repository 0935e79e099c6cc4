"""The router killed with SIGKILL at random points under load comes back knowing everything.

``EVENTLOG_KILLS`` is the number of kills, 200 for a whole proof.
"""

import contextlib
import os
import random
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.e2e.fleet import Fleet, RouterProcess, chat

ROUNDS = int(os.environ.get("EVENTLOG_KILLS", "20"))
USERS = 8


class Users:
    """Sessions that keep asking, through every kill; they note each decision they got a byte of."""

    def __init__(self, router: RouterProcess) -> None:
        self.router = router
        self.stop = threading.Event()
        self.seen: list[tuple[str, str]] = []

    def run(self, number: int) -> None:
        with httpx.Client(timeout=10) as client:
            turn = 0
            while not self.stop.is_set():
                turn += 1
                try:
                    self._ask(client, number, turn)
                except httpx.HTTPError:
                    time.sleep(0.1)  # all of them asking more often hold up the start

    def _ask(self, client: httpx.Client, number: int, turn: int) -> None:
        with client.stream(
            "POST",
            self.router.url + "/v1/chat/completions",
            json=chat(f"turn {turn}", stream=turn % 2 == 0, max_tokens=6),
            headers={"x-session-id": f"session-{number}"},
        ) as answer:
            if "x-trioroute-decision" in answer.headers:
                decision = answer.headers["x-trioroute-decision"]
                self.seen.append((decision, answer.headers["x-trioroute-replica"]))
            for _ in answer.iter_raw():
                pass


@pytest.mark.timeout(60 + 30 * ROUNDS)  # two starts of real processes a kill
def test_kills_under_load_lose_nothing(fleet: Fleet) -> None:
    for _ in range(3):
        fleet.engine("--decode-tokens-per-s=300")
    router = fleet.router().ready()
    chance = random.Random(9)
    users = Users(router)
    with ThreadPoolExecutor(USERS) as pool:
        for number in range(USERS):
            pool.submit(users.run, number)
        try:
            for _ in range(ROUNDS):
                time.sleep(chance.uniform(0.05, 0.4))
                router.kill()
                router.verify()
                router.start()
                router.ready()
        finally:
            users.stop.set()
    router.quiet()
    assert f"{ROUNDS} restarts" in router.verify()
    assert len(users.seen) > ROUNDS
    _every_decision_seen_by_a_client_is_in_the_log(router, users.seen)


def _every_decision_seen_by_a_client_is_in_the_log(
    router: RouterProcess, seen: list[tuple[str, str]]
) -> None:
    path = router.log / "log-1.sqlite"
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        rows = base.execute(
            "SELECT version, json_extract(body, '$.replica') FROM events WHERE kind = 'Dispatched'"
        )
        logged = {f"r1/{version}": replica for version, replica in rows}
    for decision, replica in seen:
        assert logged.get(decision) == replica


def test_pins_streaks_and_cooldowns_are_what_they_were(fleet: Fleet) -> None:
    for _ in range(3):
        fleet.engine("--decode-tokens-per-s=500")
    router = fleet.router(eject_cooldown="5m").ready()
    homes = {}
    for number in range(12):
        homes[number] = router.home(f"s{number}")
    fleet.engines[2].kill()
    for number in range(12):
        homes[number] = router.home(f"s{number}")
    before = router.state()
    gone = next(r for r in before["replicas"] if r["name"] == "gpu3")
    assert gone["state"] == "EJECTED"
    router.kill()
    router.start()
    router.ready()
    after = router.state()
    back = next(r for r in after["replicas"] if r["name"] == "gpu3")
    assert (back["state"], back["eject_count"]) == ("EJECTED", gone["eject_count"])
    assert 0 < back["cooldown_s"] <= gone["cooldown_s"]
    assert after["pins"] == before["pins"]
    assert all(r["in_flight"] == 0 for r in after["replicas"])
    assert {number: router.home(f"s{number}") for number in homes} == homes


def test_orphans_are_named_in_the_log_and_their_weight_is_given_back(fleet: Fleet) -> None:
    fleet.engine("--decode-tokens-per-s=5")
    router = fleet.router().ready()
    with httpx.stream(
        "POST", router.url + "/v1/chat/completions", json=chat(stream=True, max_tokens=100)
    ) as answer:
        decision = answer.headers["x-trioroute-decision"]
        router.kill()
    router.start()
    router.ready()
    router.quiet()
    told = router.replay("--decision", decision)
    assert told.returncode == 0, told.stderr
    assert "unknown" in told.stdout
    router.verify()
