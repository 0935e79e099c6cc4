"""``trioroute top`` against a real router: one frame, JSON, a token, a router that comes back."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from tests.e2e.fleet import Fleet, RouterProcess, chat, fleet_in
from tests.ports import free_port
from trioroute.cli.top_view import frame
from trioroute.cli.top_watch import Watched

TOKEN = "a-token-of-some-length"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with fleet_in(tmp_path) as started:
        started.engine()
        started.engine()
        yield started


def ask(router: RouterProcess) -> str:
    answer = httpx.post(router.url + "/v1/chat/completions", json=chat(), timeout=20)
    assert answer.status_code == 200
    return answer.headers["x-trioroute-decision"]


def command(admin: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "trioroute", "top", "--admin", admin, *options]


def top(admin: str, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(admin, *options),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, **env},
    )


def test_one_frame_shows_replicas_decisions_and_incidents(fleet: Fleet) -> None:
    router = fleet.router().ready()
    decisions = [ask(router) for _ in range(3)]
    router.quiet()
    httpx.post(router.admin + "/replicas/gpu2/eject?why=fan", timeout=10).raise_for_status()
    done = top(router.admin, "--once")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("trioroute r1: event ")
    (second,) = [line for line in lines if line.startswith("gpu2 ")]
    assert "EJECTED" in second
    assert " s " in second, "its cooldown"
    for decision in decisions:
        (line,) = [line for line in lines if f" {decision} " in line]
        assert line.split()[-2:] == ["tiny", "ok"]
    assert "gpu2: EJECTED for at least" in done.stdout
    assert "by admin: fan" in done.stdout
    as_json = top(router.admin, "--once", "--json")
    told = json.loads(as_json.stdout)
    assert [one["name"] for one in told["decisions"]] == decisions
    assert {"score", "traffic_share"} <= told["state"]["replicas"][0].keys()


def test_it_asks_with_the_token_of_the_environment(fleet: Fleet, tmp_path: Path) -> None:
    config = tmp_path / "r.toml"
    config.write_text(
        '[server]\nadmin_token_env = "TOKEN_HERE"\n'
        f'[[replica]]\nname = "gpu1"\nurl = "{fleet.engines[0].url}"\n'
    )
    router = RouterProcess(tmp_path, [], env={"TOKEN_HERE": TOKEN}, config=config)
    fleet.routers.append(router)
    router.ready()
    refused = top(router.admin, "--once")
    assert refused.returncode == 1
    assert "the admin port needs its token" in refused.stderr
    welcome = top(router.admin, "--once", "--token-env", "TOKEN_HERE", TOKEN_HERE=TOKEN)
    assert welcome.returncode == 0, welcome.stderr
    assert "gpu1" in welcome.stdout
    assert TOKEN not in welcome.stdout


def test_nobody_there_is_told_with_the_address() -> None:
    admin = f"http://127.0.0.1:{free_port()}"
    done = top(admin)
    assert done.returncode == 1
    assert f"no answer of an admin port at {admin}" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_goes_on_when_the_router_comes_back(fleet: Fleet) -> None:
    router = fleet.router().ready()
    first = ask(router)
    watching = subprocess.Popen(
        command(router.admin, "--json", "--every", "0.3"), stdout=subprocess.PIPE, text=True
    )
    try:
        assert watching.stdout is not None
        frames = (json.loads(line) for line in watching.stdout)
        next(one for one in frames if first in names(one))
        router.kill()
        next(one for one in frames if one["trouble"])
        router.start()
        router.ready()
        second = ask(router)
        last = next(one for one in frames if second in names(one))
        assert names(last) == [first, second]
        assert any("router started" in one["text"] for one in last["incidents"])
    finally:
        watching.kill()
        watching.communicate()


def names(told: dict[str, Any]) -> list[str]:
    return [one["name"] for one in told["decisions"]]


def test_on_a_terminal_it_follows_until_it_is_interrupted(fleet: Fleet) -> None:
    router = fleet.router().ready()
    ours, theirs = pty.openpty()
    watching = subprocess.Popen(
        command(router.admin, "--every", "0.3"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "50"},
    )
    os.close(theirs)
    try:
        read_until(ours, "gpu2")
        decision = ask(router)
        read_until(ours, decision)
        watching.send_signal(2)
        assert ended(watching, ours) == 0
    finally:
        watching.kill()
        watching.wait()
        os.close(ours)


def ended(process: subprocess.Popen[bytes], terminal: int) -> int | None:
    """Its exit code within 100 s. Read on meanwhile: its last picture must find room."""
    deadline = time.monotonic() + 100
    while process.poll() is None and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            with suppress(OSError):  # nobody has the other end any more
                os.read(terminal, 65536)
    return process.poll()


def read_until(terminal: int, text: str) -> None:
    shown = ""
    deadline = time.monotonic() + 100
    while text not in shown:
        assert select.select([terminal], [], [], deadline - time.monotonic())[0], shown
        shown += os.read(terminal, 65536).decode("utf-8", "replace")


def test_names_cannot_steer_the_terminal() -> None:
    hostile = "\x1b[2J[red]gpu"
    replica = {"name": hostile, "state": "LIVE", "stalled": False, "effective_running": 1.0}
    replica |= {"effective_waiting": 0.0, "in_flight": 1, "wlc_in_flight": 0.5, "kv_usage": None}
    replica |= {"score": 1.0, "traffic_share": 0.5, "cooldown_s": 0, "last_good_scrape_age_s": None}
    state = {"router": "r1", "position": 9, "durable_position": 9, "at_ms": 1_700_000_000_000}
    state |= {"imbalance_index": 0.0, "pins": {"session": 0, "prefix": 0}, "replicas": [replica]}
    watched = Watched(state=state)
    body = {"replica": hostile, "reason": "load", "model": hostile, "attempt": 1}
    watched.take({"version": 9, "at_ms": state["at_ms"], "kind": "Dispatched", "body": body})
    sink = StringIO()
    Console(file=sink, width=200).print(frame(watched))
    assert "\x1b" not in sink.getvalue()
    assert "[red]gpu" in sink.getvalue(), "and no markup is read in it"
    assert "█" in sink.getvalue(), "all of the last slot's traffic"


def test_it_says_why_no_traffic_should_come() -> None:
    shown = frame_of_a_router_without_replicas(ready=False, reason="the log is stalled")
    assert "not ready for traffic: the log is stalled" in shown
    assert "not ready" not in frame_of_a_router_without_replicas(ready=True, reason="")


def frame_of_a_router_without_replicas(**more: object) -> str:
    state = {"router": "r1", "position": 9, "durable_position": 9, "at_ms": 1_700_000_000_000}
    state |= {"imbalance_index": 0.0, "pins": {"session": 0, "prefix": 0}, "replicas": [], **more}
    sink = StringIO()
    Console(file=sink, width=200).print(frame(Watched(state=state)))
    return sink.getvalue()


def test_it_names_a_model_that_nobody_serves() -> None:
    pools = [{"model": "rag", "replicas": 2, "routable": 0}]
    pools += [{"model": "chat", "replicas": 2, "routable": 1}]
    pools += [{"model": "retired", "replicas": 0, "routable": 0}]
    shown = frame_of_a_router_without_replicas(pools=pools)
    assert "nobody serves rag" in shown
    assert shown.count("nobody serves") == 1
