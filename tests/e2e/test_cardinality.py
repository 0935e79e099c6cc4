"""Ten thousand odd model names and paths at a real router: the pages and the log stay small."""

import json
import socket
from urllib.parse import quote

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.fleet import Fleet, RouterProcess, chat

COUNT = 10_000
AT_ONCE = 50
ODD = ('"', "\\", "\n", "{", "}", "é", "\u202e", "\x7f", " ", "=", "#", "🦜", "' OR 1=1", "../")


def odd_requests() -> list[bytes]:
    """Half with a made-up model, half with a made-up path, all different."""
    made = []
    for number in range(COUNT // 2):
        odd = ODD[number % len(ODD)]
        body = json.dumps(chat(model=f"made-up-{odd}-{number}")).encode()
        made.append(_request(b"POST /v1/chat/completions", body))
        path = quote(f"/v1/made-up-{odd}-{number}" if number % 2 else f"/made-up-{odd}-{number}")
        made.append(_request(b"GET " + path.encode(), b""))
    return made


def _request(line: bytes, body: bytes) -> bytes:
    head = b"%b HTTP/1.1\r\nhost: r\r\ncontent-length: %d\r\n\r\n" % (line, len(body))
    return head + body


def statuses(router: RouterProcess, requests: list[bytes]) -> dict[int, int]:
    """Pipelined on one connection."""
    counts: dict[int, int] = {}
    with socket.create_connection(("127.0.0.1", router.port), timeout=30) as sock:
        answers = sock.makefile("rb")
        for start in range(0, len(requests), AT_ONCE):
            some = requests[start : start + AT_ONCE]
            sock.sendall(b"".join(some))
            for _ in some:
                status = int(answers.readline().split()[1])
                size = 0
                while (line := answers.readline()) != b"\r\n":
                    name, _, value = line.partition(b":")
                    if name == b"content-length":
                        size = int(value)
                answers.read(size)
                counts[status] = counts.get(status, 0) + 1
    return counts


@pytest.mark.timeout(300)
def test_ten_thousand_odd_models_and_paths_add_a_handful_of_series(fleet: Fleet) -> None:
    fleet.engine()
    fleet.engine()
    router = fleet.router().ready()
    assert httpx.post(router.url + "/v1/chat/completions", json=chat()).status_code == 200
    before = httpx.get(router.admin + "/metrics").text.count("\n")
    counts = statuses(router, odd_requests())
    assert sum(counts.values()) == COUNT
    assert set(counts) <= {200, 404}, counts
    text = httpx.get(router.admin + "/metrics").text
    assert text.count("\n") - before < 60
    assert "made-up" not in text
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    openmetrics = httpx.get(router.admin + "/metrics", headers=accept).text
    assert "made-up" not in openmetrics
    assert list(text_string_to_metric_families(text)), "it can be read"
    assert "made-up" not in httpx.get(router.admin + "/state").text
    assert router.stop() == 0
    router.verify()
