"""Kubernetes by a scripted server that follows the public API: list, watch, 410, tokens, pods."""

from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest

from tests.discovery.server import Answer, Query, Server, serving
from tests.discovery.told import watched
from tests.proxy.serving import eventually
from trioroute.discovery import Found
from trioroute.discovery.kubernetes import BadSlice, KubernetesSource, in_cluster

PATH = "/apis/discovery.k8s.io/v1/namespaces/llm/endpointslices"
SELECTOR = "kubernetes.io/service-name=vllm"


def pod(name: str, address: str, **conditions: bool) -> dict[str, Any]:
    """An endpoint as the EndpointSlice controller writes it."""
    return {
        "addresses": [address],
        "conditions": {"ready": True, "serving": True, "terminating": False, **conditions},
        "nodeName": "node-1",
        "targetRef": {"kind": "Pod", "name": name, "namespace": "llm"},
    }


def piece(name: str, *pods: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """An EndpointSlice."""
    return {
        "metadata": {"name": name, "resourceVersion": "7", "labels": {}},
        "addressType": "IPv4",
        "endpoints": list(pods),
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        **fields,
    }


def event(kind: str, told: dict[str, Any], version: str = "8") -> bytes:
    told = {**told, "metadata": {**told.get("metadata", {}), "resourceVersion": version}}
    return orjson.dumps({"type": kind, "object": told}) + b"\n"


GONE = {"kind": "Status", "code": 410, "reason": "Expired", "metadata": {}}


@attrs.define
class Cluster:
    """The list of an API server, in pages of its own size."""

    slices: list[dict[str, Any]]
    page: int = 500
    status: int = 200
    stale_pages: int = 0

    def get(self, path: str, query: Query) -> Answer:
        if self.status != 200:
            return self.status, {"kind": "Status", "code": self.status}
        assert (path, query["labelSelector"]) == (PATH, SELECTOR)
        start = int(query.get("continue", 0))
        if start and self.stale_pages:
            self.stale_pages -= 1
            return 410, GONE
        end = start + self.page
        meta = {"resourceVersion": "7", "continue": str(end) if end < len(self.slices) else ""}
        return 200, {"kind": "EndpointSliceList", "metadata": meta, "items": self.slices[start:end]}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("one\n")
    (tmp_path / "namespace").write_text("llm")
    return tmp_path


def source(server: Server, account: Path, **fields: Any) -> KubernetesSource:
    return KubernetesSource(server.url, SELECTOR, account=account, retry_s=0.05, **fields)


async def test_pods_come_change_and_go_by_the_watch(account: Path) -> None:
    cluster = Cluster([piece("s-1", pod("a", "10.0.0.1"))])
    async with serving(Server(cluster.get)) as server:
        async with watched(source(server, account)) as told:
            await told.lists("a")
            await eventually(lambda: server.watches)
            watch = server.watches[0]
            watch.say(event("ADDED", piece("s-2", pod("b", "10.0.0.2"))))
            await told.lists("a", "b")
            ending = pod("a", "10.0.0.1", ready=False, terminating=True)
            watch.say(event("MODIFIED", piece("s-1", ending)))
            await eventually(lambda: told.now and told.now[0].draining)
            watch.say(event("DELETED", piece("s-1", ending)))
            await told.lists("b")
    assert len(server.lists) == 1
    asked = server.watches[0].request.query
    assert (asked["resourceVersion"], asked["allowWatchBookmarks"]) == ("7", "true")


async def test_a_watch_that_ends_goes_on_from_its_last_version_with_a_token_read_again(
    account: Path,
) -> None:
    async with serving(Server(Cluster([]).get)) as server:
        async with watched(source(server, account)) as told:
            await told.lists()
            await eventually(lambda: server.watches)
            server.watches[0].say(event("BOOKMARK", {"kind": "EndpointSlice"}, "41"))
            (account / "token").write_text("two")
            server.watches[0].say(None)
            await eventually(lambda: len(server.watches) == 2)
    assert server.watches[1].request.query["resourceVersion"] == "41"
    assert [one.request.token for one in server.watches] == ["Bearer one", "Bearer two"]
    assert len(server.lists) == 1


@pytest.mark.parametrize("told", [event("ERROR", GONE), b"no json\n", b'{"type":"ADDED"}\n'])
async def test_a_version_that_is_too_old_or_a_bad_line_lists_again(
    account: Path, told: bytes
) -> None:
    cluster = Cluster([piece("s-1", pod("a", "10.0.0.1"))])
    async with serving(Server(cluster.get)) as server:
        async with watched(source(server, account)) as seen:
            await seen.lists("a")
            await eventually(lambda: server.watches)
            cluster.slices = [piece("s-9", pod("z", "10.0.0.9"))]
            server.watches[0].say(told)
            await seen.lists("z")
    assert seen.outages == []


async def test_a_watch_that_is_refused_as_too_old_lists_again(account: Path) -> None:
    cluster = Cluster([])
    async with serving(Server(cluster.get, watch_status=410)) as server:
        async with watched(source(server, account)) as told:
            await told.lists()
            cluster.slices = [piece("s-1", pod("a", "10.0.0.1"))]
            await told.lists("a")


async def test_a_list_in_pages_begins_again_when_its_first_pages_are_too_old(
    account: Path,
) -> None:
    slices = [piece(f"s-{n}", pod(f"p{n}", f"10.0.0.{n + 1}")) for n in range(5)]
    async with serving(Server(Cluster(slices, page=2, stale_pages=1).get)) as server:
        async with watched(source(server, account)) as told:
            await told.lists("p0", "p1", "p2", "p3", "p4")
    assert [one.query.get("continue") for one in server.lists] == [None, "2", None, "2", "4"]


async def test_outages_say_what_is_wrong(account: Path) -> None:
    cluster = Cluster([piece("s-1", pod("a", "10.0.0.1"))], status=403)
    async with serving(Server(cluster.get)) as server:
        async with watched(source(server, account)) as told:
            await told.fails("may not list endpointslices (403)")
            cluster.status = 500
            await told.fails("answers 500 and no list")
            cluster.status = 200
            await told.lists("a")
            await eventually(lambda: server.watches)
            (account / "token").unlink()
            server.watches[-1].say(None)
            await told.fails("token cannot be read: No such file")
    async with watched(KubernetesSource("", SELECTOR, retry_s=0.05)) as told:
        await told.fails("this is no pod")
    away = KubernetesSource("https://127.0.0.1:1", SELECTOR, account=account, retry_s=0.05)
    async with watched(away) as told:
        await told.fails("ca.crt cannot be used: No such file")


def found(*slices: dict[str, Any], port: str = "") -> list[Found]:
    named = {one["metadata"]["name"]: one for one in slices}
    return KubernetesSource("", SELECTOR, port=port).found(named)


def test_which_pods_take_requests() -> None:
    unknown = {**pod("unknown", "10.0.0.3"), "conditions": {}}
    seen = found(
        piece(
            "s",
            pod("ready", "10.0.0.1"),
            pod("starting", "10.0.0.2", ready=False, serving=False),
            unknown,
            pod("ending", "10.0.0.4", ready=False, terminating=True),
        )
    )
    assert {one.name: one.draining for one in seen} == {
        "ready": False,
        "starting": True,
        "unknown": False,
        "ending": True,
    }


def test_a_pod_in_several_slices_is_one_replica_by_ipv4() -> None:
    seen = found(
        piece("a-six", pod("a", "fd00::1"), pod("six", "fd00::2"), addressType="IPv6"),
        piece("b-moved", pod("a", "10.0.0.1", ready=False)),
        piece("c", pod("a", "10.0.0.1"), {"addresses": ["10.0.0.9"]}),
    )
    assert {(one.name, one.url, one.draining) for one in seen} == {
        ("a", "http://10.0.0.1:8000", False),
        ("six", "http://[fd00::2]:8000", False),
        ("10.0.0.9:8000", "http://10.0.0.9:8000", False),
    }


def test_the_port_by_name_by_number_or_the_only_one() -> None:
    two = [{"name": "http", "port": 8000}, {"name": "metrics", "port": 9000}]
    several = piece("s", pod("a", "10.0.0.1"), ports=two)
    assert found(several, port="metrics")[0].url == "http://10.0.0.1:9000"
    assert found(several, port="8001")[0].url == "http://10.0.0.1:8001"
    assert found(piece("s", ports=None)) == []
    for port in ("", "grpc"):
        with pytest.raises(BadSlice, match="has the ports 'http', 'metrics'"):
            found(several, port=port)


def test_the_api_is_where_every_pod_is_told() -> None:
    env = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert in_cluster(env) == "https://10.96.0.1:6443"
    assert in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1"}) == "https://[fd00::1]:443"
    assert in_cluster({}) == ""
