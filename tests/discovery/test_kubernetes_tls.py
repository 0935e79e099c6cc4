"""Kubernetes over TLS as in a pod: the cluster's authority in a file, a token that is renewed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Pair, self_signed
from tests.discovery.server import Answer, Query, Server, serving_tls
from tests.discovery.test_kubernetes import SELECTOR, Cluster, event, piece, pod
from tests.discovery.told import watched
from tests.proxy.serving import eventually, port_tls
from trioroute.discovery.kubernetes import KubernetesSource


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return self_signed(tmp_path, "cluster")


@pytest.fixture
def account(tmp_path: Path, pair: Pair) -> Path:
    """What a pod finds: files behind symbolic links that the kubelet swaps as one directory."""
    return mounted(tmp_path / "account", "first", token="one", ca=pair.cert)


def mounted(account: Path, version: str, *, token: str, ca: str) -> Path:
    data = account / version
    data.mkdir(parents=True)
    (data / "token").write_text(token)
    (data / "namespace").write_text("llm")
    shutil.copy(ca, data / "ca.crt")
    link = account / "..new"
    link.symlink_to(version)
    link.rename(account / "..data")
    for name in ("token", "namespace", "ca.crt"):
        if not (account / name).is_symlink():
            (account / name).symlink_to(f"..data/{name}")
    return account


def source(server: Server, account: Path, **fields: Any) -> KubernetesSource:
    return KubernetesSource(server.url, SELECTOR, account=account, retry_s=0.05, **fields)


class Guarded(Cluster):
    """An API that takes only the token of now."""

    valid = "one"
    server: Server

    def guarded(self, path: str, query: Query) -> Answer:
        if self.server.requests[-1].token != f"Bearer {self.valid}":
            return 401, {"kind": "Status", "code": 401}
        return self.get(path, query)


async def test_the_authority_of_the_pod_is_believed_and_each_request_has_the_token_of_now(
    account: Path, pair: Pair
) -> None:
    cluster = Guarded([piece("s-1", pod("a", "10.0.0.1"))])
    server = cluster.server = Server(cluster.guarded)
    async with serving_tls(server, port_tls(pair)):
        async with watched(source(server, account)) as told:
            await told.lists("a")
            await eventually(lambda: server.watches)
            server.watches[0].say(event("ADDED", piece("s-2", pod("b", "10.0.0.2"))))
            await told.lists("a", "b")
            cluster.valid = "two"
            mounted(account, "second", token="two", ca=pair.cert)
            server.watches[0].say(event("ERROR", {"kind": "Status", "code": 410}))
            await eventually(lambda: len(server.watches) == 2)
            await told.lists("a")
            cluster.valid = "three"  # before the kubelet has brought it
            server.watches[1].say(event("ERROR", {"kind": "Status", "code": 410}))
            await told.fails("may not list endpointslices (401)")
            mounted(account, "third", token="three", ca=pair.cert)
            await told.lists("a")
    assert [one.token for one in server.lists if one.token.endswith("one")] == ["Bearer one"]
    assert [one.request.token for one in server.watches][:2] == ["Bearer one", "Bearer two"]


async def test_another_authority_is_an_outage_until_the_pod_knows_it(
    account: Path, pair: Pair, tmp_path: Path
) -> None:
    stranger = self_signed(tmp_path, "stranger")
    server = Server(Cluster([piece("s-1", pod("a", "10.0.0.1"))]).get)
    async with serving_tls(server, port_tls(stranger)):
        async with watched(source(server, account)) as told:
            await told.fails(
                "its certificate is not one that may be believed: self-signed certificate"
            )
            assert server.requests == [], "no token for a stranger"
            mounted(account, "second", token="one", ca=stranger.cert)
            await told.lists("a")


@pytest.fixture
def renewed(account: Path, pair: Pair, tmp_path: Path) -> Pair:
    """Another certificate of the cluster; the pod believes both, as while a cluster changes it."""
    renewed = self_signed(tmp_path, "renewed")
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join(Path(one.cert).read_bytes() for one in (pair, renewed)))
    mounted(account, "second", token="one", ca=str(both))
    return renewed


async def test_a_renewed_certificate_of_the_api_goes_unnoticed(
    account: Path, pair: Pair, renewed: Pair
) -> None:
    tls = port_tls(pair)
    server = Server(Cluster([piece("s-1", pod("a", "10.0.0.1"))]).get)
    async with serving_tls(server, tls):
        async with watched(source(server, account)) as told:
            await told.lists("a")
            await eventually(lambda: server.watches)
            tls.context = port_tls(renewed).context
            server.watches[0].say(None)
            await eventually(lambda: len(server.watches) == 2)
    assert told.outages == []


async def test_a_file_that_is_no_certificate_is_named(account: Path, pair: Pair) -> None:
    (account / "..data" / "ca.crt").write_text("nothing")
    server = Server(Cluster([]).get)
    async with serving_tls(server, port_tls(pair)):
        async with watched(source(server, account)) as told:
            await told.fails("ca.crt holds no certificate in PEM form")
