"""Two routers behind HAProxy as deploy/README.md sets it up, restarted one after the other."""

import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.certificates import self_signed
from tests.e2e.fleet import Fleet, RouterProcess, chat, wait_for
from tests.e2e.test_proxies_in_front import COMPLETIONS, HERE, HOW, piece, replaced
from tests.ended import ended
from tests.ports import free_port

pytestmark = [
    pytest.mark.timeout(200),
    pytest.mark.skipif(not HERE["haproxy"], reason=f"not installed: {HOW['haproxy']}"),
]
CLIENTS = 4
CHECK = "server r1 127.0.0.1:8080 check port 9090 inter 300ms fall 1 rise 1"


@pytest.fixture
def routers(fleet: Fleet, tmp_path: Path) -> Iterator[list[RouterProcess]]:
    for _ in range(2):
        fleet.engine("--decode-tokens-per-s=100")
    second = Fleet(tmp_path / "second")
    second.directory.mkdir()
    second.engines = fleet.engines
    try:
        yield [
            one.router(server_settle="3s", server_name=f"r{n}").ready()
            for n, one in enumerate((fleet, second), 1)
        ]
    finally:
        for router in second.routers:
            router.popen.kill()
            router.popen.wait()


@pytest.fixture
def front(routers: list[RouterProcess], tmp_path: Path) -> Iterator[httpx.Client]:
    pair, port = self_signed(tmp_path, "front"), free_port()
    both = tmp_path / "both.pem"
    both.write_text(Path(pair.cert).read_text() + Path(pair.key).read_text())
    servers = [
        CHECK.replace("r1", f"r{n}")
        .replace("127.0.0.1:8080", f"127.0.0.1:{router.port}")
        .replace("9090", str(router.admin_port))
        for n, router in enumerate(routers, 1)
    ]
    config = tmp_path / "haproxy.cfg"
    config.write_text(
        replaced(
            piece("haproxy"),
            ("bind :443", f"bind 127.0.0.1:{port}"),
            ("/etc/ssl/api-with-key.pem", str(both)),
            (CHECK, "\n    ".join(servers)),
        )
    )
    process = subprocess.Popen(["haproxy", "-db", "-f", str(config)])
    try:
        url = f"https://127.0.0.1:{port}"
        with httpx.Client(base_url=url, verify=pair.client(), timeout=30) as client:
            wait_for("haproxy up", lambda: client.get("/v1/models").status_code == 200)
            yield client
    finally:
        with ended(process):
            process.terminate()
            process.wait(100)


def has_one_of(told: list[tuple[int, bool, str]], name: str, begin: int) -> bool:
    return any(decision.startswith(name) for _, _, decision in told[begin:])


def test_no_request_is_lost_while_one_router_after_the_other_restarts(
    routers: list[RouterProcess], front: httpx.Client
) -> None:
    over = threading.Event()
    told: list[tuple[int, bool, str]] = []

    def ask() -> None:
        while not over.is_set():
            answer = front.post(COMPLETIONS, json=chat(stream=True, max_tokens=30))
            whole = answer.text.rstrip().endswith("[DONE]")
            told.append((answer.status_code, whole, answer.headers.get("x-trioroute-decision", "")))

    clients = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        for name, router in zip(("r1/", "r2/"), routers, strict=True):
            assert router.stop() == 0
            begin = len(told)
            router.start()
            router.ready()
            wait_for(f"answers of {name}", partial(has_one_of, told, name, begin))
    finally:
        over.set()
        for client in clients:
            client.join()
    assert {(status, whole) for status, whole, _ in told} == {(200, True)}, told
    assert len(told) > 4 * CLIENTS
