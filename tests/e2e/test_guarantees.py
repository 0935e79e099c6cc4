"""Guarantees of RULES 7 with real processes: the way back, draining, and asking the log."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from eventlog.sqlite import SqliteReader
from tests.e2e.fleet import Fleet, RouterProcess, chat, wait_for
from trioroute import events as e
from trioroute.replay.read import Source

COMPLETIONS = "/v1/chat/completions"
WINDOW_MS = 1500
SHORT: dict[str, Any] = {
    "eject_cooldown": "2s",
    "eject_cooldown_max": "2s",
    "probing_window": f"{WINDOW_MS}ms",
    "log_sync": "normal",
}


@contextmanager
def users(router: RouterProcess, count: int) -> Iterator[list[int]]:
    """So many clients, each with a session of its own, one request after the other; the statuses
    they got."""
    stop = threading.Event()
    statuses: list[int] = []

    def user(number: int) -> None:
        with httpx.Client(timeout=20, headers={"x-session-id": f"user-{number}"}) as client:
            while not stop.is_set():
                answer = client.post(router.url + COMPLETIONS, json=chat(f"user {number}"))
                statuses.append(answer.status_code)
                time.sleep(0.02)

    threads = [threading.Thread(target=user, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def logged(router: RouterProcess, replica: str) -> list[tuple[int, e.Event]]:
    """What the log has of a replica: when and what."""
    reader = SqliteReader.open(router.log)
    try:
        source = Source(reader)
        found = [(record, source.event(record)) for record in source.records()]
    finally:
        reader.close()
    return [
        (record.at_ms, event)
        for record, event in found
        if event is not None and getattr(event, "replica", None) == replica
    ]


def test_a_revived_replica_gets_nothing_before_probing_and_no_pin_before_live(fleet: Fleet) -> None:
    for _ in range(3):
        fleet.engine("--decode-tokens-per-s=400")
    router = fleet.router(**SHORT).ready()
    with users(router, 3) as statuses:
        time.sleep(0.5)
        fleet.engines[0].kill()
        wait_for("ejected", lambda: router.replica("gpu1")["state"] == "EJECTED")
        fleet.engines[0].start()
        wait_for("PROBING", lambda: router.replica("gpu1")["state"] == "PROBING")
        wait_for("LIVE", lambda: router.replica("gpu1")["state"] == "LIVE")
        for at in range(20):  # sessions of their own: some of them bind there
            httpx.post(router.url + COMPLETIONS, json=chat(), headers={"x-session-id": f"new-{at}"})
    assert set(statuses) == {200}
    assert router.stop() == 0
    events = logged(router, "gpu1")
    at = next(n for n, (_, event) in enumerate(events) if isinstance(event, e.Ejected))
    kinds = [type(event).__name__ for _, event in events[at:]]
    before_probing = kinds[: kinds.index("Probing")]
    assert "Dispatched" not in before_probing
    before_live = kinds[: kinds.index("Live")]
    assert not {"Bound", "Rebound"} & set(before_live)
    after_live = kinds[kinds.index("Live") :]
    assert {"Dispatched", "Bound"} <= set(after_live)
    times = {type(event).__name__: at_ms for at_ms, event in events[at:][::-1]}
    assert times["Live"] - times["Probing"] >= WINDOW_MS
    assert times["Probing"] - times["Ejected"] >= 2000
    router.verify()


def drain(router: RouterProcess, name: str, verb: str) -> None:
    httpx.post(f"{router.admin}/replicas/{name}/{verb}").raise_for_status()


def test_a_drained_replica_gets_nothing_new_and_its_streams_finish(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.engine("--decode-tokens-per-s=50")
    router = fleet.router(log_sync="normal").ready()
    body = chat(stream=True, max_tokens=60)
    with httpx.stream("POST", router.url + COMPLETIONS, json=body, timeout=20) as answer:
        chunks = answer.iter_raw()
        received = next(chunks)
        home = answer.headers["x-trioroute-replica"]
        drain(router, home, "drain")
        others = {ask(router) for _ in range(8)}
        received += b"".join(chunks)
    assert b"[DONE]" in received
    assert b'"error"' not in received
    assert home not in others
    drain(router, home, "undrain")
    assert home in {ask(router) for _ in range(8)}
    router.verify()


def ask(router: RouterProcess) -> str:
    answer = httpx.post(router.url + COMPLETIONS, json=chat(max_tokens=1), timeout=20)
    assert answer.status_code == 200
    return answer.headers["x-trioroute-replica"]


def test_a_real_log_is_asked_what_if(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.engine("--decode-tokens-per-s=200")
    router = fleet.router(log_sync="normal").ready()
    with users(router, 6) as statuses:
        wait_for("some traffic", lambda: len(statuses) >= 120)
    assert router.stop() == 0
    same = what_if(router, "policy.slack.session=1")
    assert same["exact"]["decisions"] >= 120
    assert same["exact"]["differ"] == same["exact"]["unproved"] == 0
    other = what_if(router, "policy.name=least-work")
    assert other["exact"]["unproved"] == 0
    assert other["exact"]["differ"] > 0
    assert other["exact"]["first"]["changed"]["policy"] == "least-work"
    simulated = other["simulated"]
    assert (simulated["refused"] is None) == (simulated["changed"] is not None)
    assert simulated["fit"]["duration"]["requests"] > 50


def what_if(router: RouterProcess, change: str) -> Any:
    done = router.replay("--what-if", change, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
