"""Words of clients, pushed through every path and error, are in nothing that the router leaves."""

import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from eventlog.segments import list_segments
from eventlog.snapshots import Snapshots
from tests.e2e.fleet import Fleet, RouterProcess, chat, wait_for
from tests.e2e.test_long_life import log_command

PROMPT, SESSION, KEY = "canary-prompt-7f", "canary-session-7f", "sk-canary-key-7f"
HEADER, ADDRESS, PATH = "canary-header-7f", "203.0.113.77", "canary-path-7f"
FROM = "127.0.0.77"
"""From where the client comes; what is looked at comes from 127.0.0.1."""
CANARIES = (PROMPT, SESSION, KEY, HEADER, ADDRESS, PATH, FROM)
DECISION = "x-trioroute-decision"
COMPLETIONS = "/v1/chat/completions"
HEADERS = {
    "authorization": f"Bearer {KEY}",
    "x-session-id": SESSION,
    "x-forwarded-for": ADDRESS,
    "x-anything": HEADER,
    "user-agent": HEADER,
    "cookie": f"session={HEADER}",
}


TLS_HELLO = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(192)


def singer() -> httpx.Client:
    return httpx.Client(
        headers=HEADERS, timeout=20, transport=httpx.HTTPTransport(local_address=FROM)
    )


def connected(port: int | None) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port or 0), timeout=30, source_address=(FROM, 0))


def sing(router: RouterProcess) -> set[int]:
    """Each way to be answered, and to be refused; the statuses seen."""
    said = chat(max_tokens=2) | {"messages": [{"role": "user", "content": PROMPT * 50}]}
    url = router.url + COMPLETIONS
    with singer() as client:
        answers = [
            client.post(url, json=said),
            client.post(url, json=said | {"stream": True, "user": PROMPT}),
            client.post(url, json=said | {"model": 7, "user": PROMPT}),
            client.post(url, content=f'{{"messages": "{PROMPT}'.encode()),
            client.post(url, content=PROMPT.encode(), headers={"content-encoding": PROMPT}),
            client.get(f"{router.url}/{PATH}?{PROMPT}"),
            client.put(url, content=PROMPT),
            client.get(f"{router.admin}/{PATH}"),
            client.get(f"{router.admin}/decisions/{PATH}/1"),
            client.post(f"{router.admin}/replicas/{PATH}/drain"),
        ]
    for port in (router.port, httpx.URL(router.admin).port):
        with connected(port) as raw:  # a client that speaks TLS to a plain port
            raw.sendall(TLS_HELLO)
            assert b" 400 " in raw.recv(65536)
    with connected(router.port) as raw:
        raw.sendall(f"GET /{PATH} HTTP/1.1\r\n{HEADER} : x\r\n\r\n".encode())
        raw.recv(65536)
    with connected(router.port) as raw:
        head = f"POST {COMPLETIONS} HTTP/1.1\r\nhost: r\r\nx-session-id: {SESSION}\r\n"
        raw.sendall(f"{head}content-length: 9999\r\n\r\n{PROMPT}".encode())
    return {answer.status_code for answer in answers}


def followed(router: RouterProcess) -> str:
    """The first 64 KiB of the events, as a watcher reads them."""
    read = ""
    with httpx.stream("GET", f"{router.admin}/events?since=0", timeout=20) as stream:
        for chunk in stream.iter_text():
            read += chunk
            if len(read) > 65536:
                break
    assert "Dispatched" in read
    return read


def command(*words: str) -> str:
    run = [sys.executable, "-m", "trioroute", *words]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused_to_another(router: RouterProcess) -> str:
    """What the errors say to a client that sings nothing."""
    url = router.url + COMPLETIONS
    answers = [httpx.post(url, json=chat()), httpx.post(url, content=b"{")]
    return "".join(f"{answer.headers} {answer.text}" for answer in answers)


@pytest.mark.timeout(400)  # a dozen commands, one after the other
def test_no_canary_is_in_anything_that_a_router_writes_or_shows(
    fleet: Fleet, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    engine = fleet.engine("--decode-tokens-per-s=5000", "--prefill-tokens-per-s=1000000")
    router = fleet.router(
        log_segment_bytes="64KiB",
        log_archive=f"cp {{segment}} {archive}/",
        server_access_log=str(tmp_path / "access.jsonl"),
    ).ready()
    seen = sing(router)
    assert 200 in seen
    assert len(seen) >= 4, "the errors were met"
    with singer() as client:
        while len(list_segments(router.log)) < 2:
            asked = chat(max_tokens=1) | {"user": PROMPT}
            decision = client.post(router.url + COMPLETIONS, json=asked).headers[DECISION]
    wait_for("the archive", lambda: list(archive.glob("log-*")), within_s=60)
    engine.kill()  # now nobody is there
    said = chat() | {"user": PROMPT}
    assert httpx.post(router.url + COMPLETIONS, json=said, headers=HEADERS).status_code != 200
    pages = ("/metrics", "/state?with=traffic_share", "/", "/readyz")
    shown = {page: httpx.get(router.admin + page).text for page in pages}
    shown["/decisions"] = httpx.get(f"{router.admin}/decisions/{decision}", timeout=20).text
    shown["/events"] = followed(router)
    for words in (["top", "--once", "--json"], ["top", "--once"]):
        shown[" ".join(words)] = command(*words, f"--admin={router.admin}")
    shown["alerts"] = command("alerts")
    shown["another's refusal"] = refused_to_another(router)
    assert router.stop() == 0
    assert log_command("snapshot", router.log).returncode == 0
    assert Snapshots(router.log).seqs()
    shown["export"] = log_command("export", router.log).stdout
    shown["verify"] = log_command("verify", router.log).stdout
    shown["replay"] = router.replay("--at", "-1s", "--json").stdout
    shown["replay of the last"] = router.replay("--last", "50", "--json").stdout
    shown["replay of a session"] = router.replay("--session", "another").stderr
    page = tmp_path / "incident.html"
    incident = router.replay("--incident", "-10m/-0s", "--html", str(page))
    assert page.exists(), incident.stderr
    assert log_command("archive", router.log, tmp_path / "one.sqlite", "--one-file").returncode == 0
    files = [tmp_path / "one.sqlite", router.output, page, *archive.iterdir()]
    files += [path for path in router.log.rglob("*") if path.is_file()]
    shown |= {str(path): path.read_bytes().decode("latin-1") for path in files}
    assert len(shown) > 10
    assert "Dispatched" in shown[str(tmp_path / "one.sqlite")], "it would be found there"
    assert '"kind": "Dispatched"' in shown["export"] or '"kind":"Dispatched"' in shown["export"]
    access = (tmp_path / "access.jsonl").read_text()
    assert '"status":200' in access
    # It tells the path that was asked for, by decision (HTTP.md), and nothing else of a client.
    assert [word for word in CANARIES if word in access] == [PATH]
    empty = [place for place, text in shown.items() if not text]
    assert all(place.endswith((".lock", "-wal")) for place in empty), empty
    found = [(place, word) for place, text in shown.items() for word in CANARIES if word in text]
    assert found == []
