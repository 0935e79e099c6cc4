"""The admin port over a real server and real sockets."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import httpx
import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from eventlog.errors import JournalFull, StoreFailed
from tests.observe.rig import Rig
from trioroute.observe import (
    AdminDesk,
    BadReplica,
    NoSuchReplica,
    Reloaded,
    ReplicaExists,
    admin_app,
)
from trioroute.observe.admin import BODY_MAX
from trioroute.observe.guard import OPEN_PATHS
from trioroute.policy.commands import Drain, Eject, Join, Leave, ObserveFailure

PATHS = ("/", "/metrics", "/healthz", "/readyz", "/state")
RELOADED = Reloaded(
    "applied", "0123456789abcdef", ("server.listen",), changed=("eject.cooldown 30s -> 1m",)
)


@attrs.define
class House:
    """A rig behind the admin port; ``trouble`` is raised by every call that may fail."""

    rig: Rig = attrs.field(factory=Rig)
    ready: tuple[bool, str] = (True, "2 replicas are routable")
    explained: list[tuple[str, int]] = attrs.field(factory=list)
    trouble: Exception | None = None

    async def explain(self, router: str, number: int) -> dict[str, Any] | str | None:
        await trio.lowlevel.checkpoint()
        self._fail()
        self.explained.append((router, number))
        if number == 1:
            return "the log holds r1/3 to r1/9; older events were retired"
        return {"decision": f"{router}/{number}"} if (router, number) == ("r1", 5) else None

    async def find(self, text: str) -> dict[str, Any] | str:
        await trio.lowlevel.checkpoint()
        self._fail()
        return {"decisions": [], "complete": True} if text == "req 1/é" else f"no {text!r} here"

    restart_needed: tuple[str, ...] = ()
    reloaded: Reloaded = RELOADED
    reasons: list[str] = attrs.field(factory=list)

    def drain(self, name: str, on: bool, why: str) -> None:
        self._known(name, why)
        self.rig.handle(Drain, replica=name, on=on)

    def eject(self, name: str, why: str) -> None:
        self._known(name, why)
        self.rig.handle(Eject, replica=name)

    def add(self, told: Mapping[str, Any], why: str) -> str:
        self._fail()
        self.reasons.append(why)
        if "url" not in told:
            raise BadReplica("url is not a URL")
        if told["name"] in self.rig.state.fleet.replicas:
            raise ReplicaExists("a is taken")
        self.rig.handle(Join, replica=told["name"], url=told["url"])
        return str(told["name"])

    def remove(self, name: str, why: str, *, now: bool) -> bool:
        self._known(name, why)
        if now:
            self.rig.handle(Leave, replica=name)
        else:
            self.rig.handle(Drain, replica=name, on=True, leaves=True)
        return name == "a"

    async def reload(self, why: str) -> Reloaded:
        await trio.lowlevel.checkpoint()
        self._fail()
        self.reasons.append(why)
        return self.reloaded

    def _known(self, name: str, why: str) -> None:
        self._fail()
        if name not in self.rig.state.fleet.replicas:
            raise NoSuchReplica(name)
        self.reasons.append(why)

    def _fail(self) -> None:
        if self.trouble is not None:
            raise self.trouble

    def desk(self) -> AdminDesk:
        return AdminDesk(
            state=lambda: self.rig.state,
            now_ms=lambda: self.rig.now_ms,
            log=self.rig.log,
            feed=self.rig.feed(),
            timings=self.rig.timings,
            ready=lambda: self.ready,
            explain=self.explain,
            find=self.find,
            changes=self,
            version="1.2.3",
        )


@pytest.fixture
def house() -> House:
    house = House()
    house.rig.live("a", "10.0.0.7:8000")
    return house


@asynccontextmanager
async def asked(house: House) -> AsyncIterator[httpx.AsyncClient]:
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None
    async with trio.open_nursery() as nursery:
        app = admin_app(house.desk())
        (url,) = await nursery.start(partial(serve, app, config, mode="asgi"))
        async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as client:
            yield client
        nursery.cancel_scope.cancel()


async def test_health_is_ok_while_the_process_lives(house: House) -> None:
    house.ready = (False, "draining")
    async with asked(house) as client:
        answer = await client.get("/healthz")
    assert (answer.status_code, answer.text) == (200, "ok")


async def test_readiness_follows_its_reason(house: House) -> None:
    async with asked(house) as client:
        answer = await client.get("/readyz")
        assert answer.status_code == 200
        assert answer.json() == {
            "ready": True,
            "reason": "2 replicas are routable",
            "unserved": [],
        }
        house.ready = (False, "the log is stalled")
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        told = {"ready": False, "reason": "the log is stalled", "unserved": []}
        assert answer.json() == told


async def test_readiness_names_a_model_that_nobody_serves(house: House) -> None:
    house.rig.live("r1", "r2", models=("rag",))
    for name in ("r1", "r2"):
        house.rig.handle(ObserveFailure, replica=name, cause="refused")
    async with asked(house) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["unserved"] == ["rag"]


async def test_state_is_json_and_extra_fields_only_on_request(house: House) -> None:
    async with asked(house) as client:
        plain = await client.get("/state")
        more = await client.get("/state?with=traffic_share")
    assert plain.headers["content-type"] == "application/json"
    assert [replica["name"] for replica in plain.json()["replicas"]] == ["a", "10.0.0.7:8000"]
    assert "traffic_share" not in plain.json()["replicas"][0]
    assert "traffic_share" in more.json()["replicas"][0]


async def test_metrics_come_in_the_format_that_is_asked_for(house: House) -> None:
    async with asked(house) as client:
        text = await client.get("/metrics")
        accept = "application/openmetrics-text;version=1.0.0"
        openmetrics = await client.get("/metrics", headers={"accept": accept})
    assert text.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'trioroute_replica_state{replica="a",state="LIVE"} 1.0' in text.text
    assert openmetrics.headers["content-type"].startswith(accept.replace(";", "; "))
    assert openmetrics.text.endswith("# EOF\n")


async def test_the_dashboard_brings_its_policy(house: House) -> None:
    async with asked(house) as client:
        answer = await client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'sha256-" in answer.headers["content-security-policy"]
    assert answer.text.startswith("<!doctype html>")


@pytest.mark.parametrize("path", [*PATHS, "/nowhere"])
async def test_every_answer_carries_the_security_headers(house: House, path: str) -> None:
    async with asked(house) as client:
        headers = (await client.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("path", [*PATHS, "/decisions/r1/5", "/nowhere"])
async def test_head_is_get_without_a_body(house: House, path: str) -> None:
    async with asked(house) as client:
        get, head = await client.get(path), await client.head(path)
    assert head.content == b""
    assert head.status_code == get.status_code
    without_date = [
        [item for item in answer.headers.multi_items() if item[0] != "date"]
        for answer in (get, head)
    ]
    assert without_date[0] == without_date[1]
    assert int(head.headers["content-length"]) == len(get.content) > 0


async def test_decisions_are_found_by_what_a_client_knows(house: House) -> None:
    async with asked(house) as client:
        found = await client.get("/decisions", params={"find": "req 1/é"})
        none = await client.get("/decisions?find=elsewhere")
    assert found.json() == {"decisions": [], "complete": True}
    assert none.status_code == 404
    error = none.json()["error"]
    assert (error["code"], error["message"]) == ("decision_not_found", "no 'elsewhere' here")


@pytest.mark.parametrize("query", ["", "?find=", "?find=a&find=b", "?find=" + "x" * 257, "?find"])
async def test_a_look_for_nothing_says_what_to_ask(house: House, query: str) -> None:
    async with asked(house) as client:
        answer = await client.get("/decisions" + query)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "bad_request"
    assert "ask /decisions?find=TEXT" in answer.json()["error"]["message"]


async def test_a_decision_is_explained(house: House) -> None:
    async with asked(house) as client:
        answer = await client.get("/decisions/r1/5")
    assert answer.json() == {"decision": "r1/5"}
    assert house.explained == [("r1", 5)]


async def test_an_unknown_decision_gets_a_hint(house: House) -> None:
    async with asked(house) as client:
        answer = await client.get("/decisions/r1/999")
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == "decision_not_found"
    assert f"r1/{house.rig.log.position}" in error["message"]


async def test_a_retired_decision_gets_what_the_log_holds(house: House) -> None:
    async with asked(house) as client:
        answer = await client.get("/decisions/r1/1")
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["code"] == "decision_not_found"
    assert "'r1/1'; the log holds r1/3 to r1/9; older events were retired" in error["message"]


@pytest.mark.parametrize("number", ["0", "-1", "x", "1e3", "٣", "9" * 19, ""])
async def test_what_is_no_number_is_never_looked_up(house: House, number: str) -> None:
    async with asked(house) as client:
        answer = await client.get(f"/decisions/r1/{number}")
    assert answer.status_code == 404
    assert house.explained == []


async def test_a_replica_is_drained_and_comes_back(house: House) -> None:
    async with asked(house) as client:
        answer = await client.post("/replicas/10.0.0.7:8000/drain")
        assert answer.json() == {
            "replica": "10.0.0.7:8000",
            "state": "DRAINING",
            "in_flight": 0,
        }
        answer = await client.post("/replicas/10.0.0.7:8000/undrain")
        assert answer.json()["state"] == "LIVE"


async def test_an_unknown_replica_is_404_and_the_known_ones_are_named(house: House) -> None:
    async with asked(house) as client:
        answer = await client.post("/replicas/b/drain")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "replica_not_found"
    assert "a, 10.0.0.7:8000" in answer.json()["error"]["message"]


async def test_a_log_in_trouble_is_503_not_a_crash(house: House) -> None:
    async with asked(house) as client:
        house.trouble = JournalFull(10, 100, 10, 100)
        full = await client.post("/replicas/a/drain")
        house.trouble = StoreFailed("log-1.sqlite", "disk I/O error")
        broken = await client.get("/decisions/r1/5")
    for answer in (full, broken):
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "log_stalled"
        assert answer.headers["retry-after"] == "1"
    assert "disk I/O error" in broken.json()["error"]["message"]


@pytest.mark.parametrize(
    "path", ["/nowhere", "/state/", "/metrics2", "/replicas/", "/reload/", "/decisions/5"]
)
async def test_an_unknown_path_is_404_in_openai_shape(house: House, path: str) -> None:
    async with asked(house) as client:
        answer = await client.get(path)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert (error["type"], error["param"], error["code"]) == (
        "invalid_request_error",
        None,
        "not_found",
    )


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/metrics", "GET, HEAD"),
        ("DELETE", "/state", "GET, HEAD"),
        ("OPTIONS", "/", "GET, HEAD"),
        ("PUT", "/decisions/r1/5", "GET, HEAD"),
        ("GET", "/replicas/a/drain", "POST"),
        ("HEAD", "/replicas/a/undrain", "POST"),
        ("GET", "/replicas/a", "DELETE"),
        ("GET", "/replicas", "POST"),
        ("DELETE", "/reload", "POST"),
    ],
)
async def test_another_method_is_405_with_allow(
    house: House, method: str, path: str, allow: str
) -> None:
    async with asked(house) as client:
        answer = await client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == allow
    assert house.rig.state.standing("a") == "LIVE"


async def test_a_rebound_name_reads_nothing(house: House) -> None:
    async with asked(house) as client:
        for path in set(PATHS) - set(OPEN_PATHS):
            answer = await client.get(path, headers={"host": "evil.example"})
            assert answer.status_code == 403
            assert answer.json()["error"]["code"] == "host_not_allowed"


async def test_a_strangers_page_drains_nothing(house: House) -> None:
    async with asked(house) as client:
        headers = {"origin": "http://evil.example", "content-type": "text/plain"}
        answer = await client.post("/replicas/a/drain", headers=headers, content="x")
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "origin_not_allowed"
        assert house.rig.state.standing("a") == "LIVE"
        own = f"http://{client.base_url.host}:{client.base_url.port}"
        answer = await client.post("/replicas/a/drain", headers={"origin": own})
        assert answer.status_code == 200


async def test_a_body_that_nobody_reads_does_no_harm(house: House) -> None:
    async with asked(house) as client:
        for _ in range(3):
            answer = await client.post("/replicas/a/drain", content=b"x" * 200_000)
            assert answer.status_code == 200
            assert (await client.get("/healthz")).status_code == 200


async def test_a_body_beyond_the_bound_is_413_and_changes_nothing(house: House) -> None:
    head = "POST /replicas/a/drain HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999999\r\n\r\n"
    async with asked(house) as client:
        stream = await trio.open_tcp_stream(client.base_url.host, client.base_url.port or 0)
        async with stream:
            await stream.send_all(head.encode() + b"x" * (BODY_MAX + 1))
            answer = await stream.receive_some()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer.lower()
    assert house.rig.state.standing("a") == "LIVE"
