"""Three records of one run under faults agree: the clients', the replicas' and the router's log.

And what replay explains of it is what a naive reader derives from its raw rows.
"""

import json
import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

from eventlog.sqlite import SqliteReader
from tests.e2e.fleet import CLIENT, Engine, Fleet, RouterProcess, chat, wait_for
from tests.replay.as_naive import compared
from trioroute import events as e
from trioroute.replay.read import Source

CLIENTS = 12
DECISIONS = 1000
LIMITS: dict[str, Any] = {
    "timeouts_first_byte": "1s",
    "timeouts_idle": "1s",
    "eject_cooldown": "2s",
    "eject_cooldown_max": "2s",
    "probing_window": "1s",
    "log_sync": "normal",
}
BROKEN = {
    "upstream_error",
    "upstream_cut",
    "upstream_empty",
    "first_byte_timeout",
    "idle_timeout",
}
KILLED = "gpu1"
"""The replica that is killed: what it had sent it may never have written down."""

STOOD_STILL = "gpu2"
"""The replica that is stopped for a while: what it had sent it may write down only after it."""

CLOCKS_MS = 1000
"""Processes read the same clock; this is for what lies between reading it and acting."""


@attrs.frozen
class Felt:
    """What one client knows of its request; ``whole``: the answer came to its proper end."""

    request_id: str
    status: int | None
    headers: dict[str, str]
    body: bytes
    whole: bool
    error: str = ""


@attrs.define
class Clients:
    url: str
    over: threading.Event = attrs.field(factory=threading.Event)
    felt: list[Felt] = attrs.field(factory=list)

    def live(self, number: int) -> None:
        with httpx.Client(timeout=20) as client:
            count = 0
            while not self.over.is_set():
                count += 1
                self.felt.append(self.ask(client, f"client-{number}-{count}", count % 2 == 0))
                time.sleep(0.01)

    def ask(self, client: httpx.Client, request_id: str, stream: bool) -> Felt:
        session = request_id.rpartition("-")[0]
        headers = {"x-request-id": request_id, "x-session-id": session}
        body = chat(f"I am {session}", max_tokens=40, stream=stream)
        status, told, got = None, dict[str, str](), b""
        try:
            url = self.url + "/v1/chat/completions"
            with client.stream("POST", url, json=body, headers=headers) as answer:
                status, told = answer.status_code, dict(answer.headers)
                for part in answer.iter_raw():
                    got += part
        except httpx.HTTPError as error:
            return Felt(request_id, status, told, got, whole=False, error=repr(error))
        broken = stream and status == 200 and b"[DONE]" not in got
        return Felt(request_id, status, told, got, whole=not broken and b'"error"' not in got)


@contextmanager
def clients(router: RouterProcess) -> Iterator[Clients]:
    made = Clients(router.url)
    threads = [threading.Thread(target=made.live, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made.over.set()
        for thread in threads:
            thread.join()


@attrs.frozen
class Dispatch:
    number: int
    at_ms: int
    event: e.Dispatched
    end: e.Failed | e.Released
    end_ms: int


@attrs.define
class Logged:
    """The rows of the log that tell of requests."""

    dispatches: dict[int, Dispatch]
    refused: dict[str, e.Refused]


def logged(directory: Path) -> Logged:
    begun: dict[int, tuple[int, e.Dispatched]] = {}
    found, refused = {}, {}
    with closing(SqliteReader.open(directory)) as reader:
        source = Source(reader)
        for record in source.records():
            event = source.event(record)
            if isinstance(event, e.Dispatched):
                begun[record.version] = (record.at_ms, event)
            elif isinstance(event, e.Failed | e.Released):
                at_ms, first = begun.pop(event.dispatch)
                made = Dispatch(event.dispatch, at_ms, first, event, record.at_ms)
                found[event.dispatch] = made
            elif isinstance(event, e.Refused):
                refused[event.request_id] = event
    assert not begun
    return Logged(found, refused)


def served(directory: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """By request and replica, the lines of the replicas' own access logs."""
    lines = defaultdict(list)
    for file in sorted(directory.glob("gpu*.access")):
        for text in file.read_text().splitlines():
            line = json.loads(text)
            lines[line["request_id"], file.stem].append(line)
    return lines


def busy(router: RouterProcess, name: str) -> None:
    wait_for(f"{name} busy", lambda: router.replica(name)["in_flight"] >= 2)


def killed_with_requests(router: RouterProcess, engine: Engine) -> None:
    """Stopped before, so that what was in flight has not ended when it is killed."""
    while True:
        busy(router, engine.name)
        os.kill(engine.popen.pid, signal.SIGSTOP)
        if router.replica(engine.name)["in_flight"] >= 2:
            break
        os.kill(engine.popen.pid, signal.SIGCONT)
    engine.kill()


def struck(fleet: Fleet, router: RouterProcess) -> None:
    """Kill one, bring it back; let one stand still; drain one. Each under load."""
    first, second, _ = fleet.engines
    time.sleep(0.5)
    killed_with_requests(router, first)
    wait_for("ejected", lambda: router.replica(KILLED)["state"] == "EJECTED")
    first.start()
    wait_for("back", lambda: router.replica(KILLED)["state"] == "LIVE")
    busy(router, "gpu2")
    os.kill(second.popen.pid, signal.SIGSTOP)
    try:
        wait_for("ejected", lambda: router.replica("gpu2")["state"] == "EJECTED")
        time.sleep(1)
    finally:
        os.kill(second.popen.pid, signal.SIGCONT)
    httpx.post(f"{router.admin}/replicas/gpu3/drain").raise_for_status()
    time.sleep(1)
    httpx.post(f"{router.admin}/replicas/gpu3/undrain").raise_for_status()
    first.faults(status=500, count=2)
    wait_for("both answered", lambda: not CLIENT.get(first.url + "/faults").json())
    time.sleep(0.5)


@pytest.mark.timeout(300)  # on a machine that is busy the faults come several times
def test_clients_replicas_and_the_log_tell_the_same(fleet: Fleet) -> None:
    for name in ("gpu1", "gpu2", "gpu3"):
        fleet.engine(
            "--decode-tokens-per-s=400",
            f"--access-log={fleet.directory / name}.access",
            name=name,
        )
    router = fleet.router(**LIMITS).ready()
    with clients(router) as made:
        while len(made.felt) <= DECISIONS:
            struck(fleet, router)
    router.quiet()
    assert router.stop() == 0
    for engine in fleet.engines:
        assert engine.stop() == 0
    log = logged(router.log)
    ends = clients_agree(made.felt, log)
    causes = replicas_agree(served(fleet.directory), log)
    assert {"none", "status", "timeout"} <= {*causes}, causes
    # the kill, of a connection that had given a byte or was fresh, and of a kept one
    assert {"reset", "fin", "refused"} & {*causes}, causes
    assert ends["ok"] > 50, ends
    router.verify()
    with closing(SqliteReader.open(router.log)) as reader:
        explained = compared(Source(reader), DECISIONS)
    assert len(explained) == DECISIONS
    seen = Counter(one.state for told in explained for one in told.replicas)
    assert {*seen} >= {"LIVE", "EJECTED", "PROBING", "DRAINING"}, seen
    told = json.loads(router.replay("--incident", "-1h", "--json").stdout)
    broken = sum(count for outcome, count in ends.items() if outcome in BROKEN)
    assert told["total"]["failed"] == broken
    assert told["total"]["requests"] == len(made.felt)
    assert told["first_cause"]["kind"] == "eject"
    assert told["first_cause"]["evidence"]
    drain = "gpu3: draining: takes no new request, by admin"
    assert drain in {line["text"] for line in told["changes"]}


def clients_agree(felt: list[Felt], log: Logged) -> Counter[str]:
    """What each client got is what the log says of its request, and nobody else's is in it."""
    outcomes: Counter[str] = Counter()
    assert {one.event.request_id for one in log.dispatches.values()} <= {
        one.request_id for one in felt
    }
    for one in felt:
        assert one.headers.get("x-request-id") == one.request_id, one
        name = one.headers.get("x-trioroute-decision")
        if name is None:
            refused = log.refused[one.request_id]
            assert json.loads(one.body)["error"]["code"] == refused.code
            outcomes[refused.code] += 1
            continue
        found = log.dispatches[int(name.removeprefix("r1/"))]
        event, end = found.event, found.end
        assert event.request_id == one.request_id
        assert event.replica == one.headers["x-trioroute-replica"]
        assert event.reason == one.headers["x-trioroute-reason"]
        assert event.attempt == int(one.headers["x-trioroute-attempts"])
        tried = [log.dispatches[number].event for number in event.earlier]
        assert tuple(earlier.replica for earlier in tried) == event.tried
        assert {earlier.request_id for earlier in tried} <= {one.request_id}
        assert isinstance(end, e.Released), (name, end)
        assert one.whole == (end.outcome == "ok"), (one, end)
        if code_of(one) != end.outcome:  # else it is the router's own answer, which names the end
            assert one.status == end.status, (one, end)
        if one.whole:
            assert len(one.body) == end.bytes
        outcomes[end.outcome] += 1
    return outcomes


def code_of(felt: Felt) -> object:
    """Of a whole error body; None: it is none."""
    try:
        return json.loads(felt.body)["error"]["code"]
    except (ValueError, KeyError):
        return None


def replicas_agree(lines: dict[tuple[str, str], list[dict[str, Any]]], log: Logged) -> Counter[str]:
    """A replica saw the requests that the log says went there, at that time, and no others."""
    causes: Counter[str] = Counter()
    sent = {(one.event.request_id, one.event.replica): one for one in log.dispatches.values()}
    assert len(sent) == len(log.dispatches)
    assert {*lines} <= {*sent}
    for place, one in sent.items():
        seen, end = lines.get(place, []), one.end
        causes[end.cause] += 1
        whole = [line["status"] for line in seen if line["event"] == "ended" and line["whole"]]
        if end.cause in ("refused", "reset", "fin", "timeout") and not seen:
            continue  # it never got there: nobody listened, or a process that stood still
        taken = [line for line in seen if line["event"] == "taken"]
        assert len(taken) == 1, (place, seen, end)
        assert one.at_ms - CLOCKS_MS <= taken[0]["at_ms"], (place, one)
        if isinstance(end, e.Released) and end.outcome == "ok":
            unwritten = whole == [] and place[1] == KILLED
            assert whole == [200] or unwritten, (place, seen, end)
            late = seen[-1]["at_ms"] > one.end_ms + CLOCKS_MS
            assert not late or place[1] == STOOD_STILL, (place, seen, one)
        elif end.cause == "status":
            assert whole == [end.status], (place, seen, end)
        elif end.cause in ("reset", "fin"):
            assert whole == [], (place, seen, end)
    return causes
