"""The router as a process: starts, refusals, signals."""

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.e2e.fleet import Fleet, chat, kinds_in, status_of, wait_for
from tests.ports import free_port
from trioroute import __version__
from trioroute.serve import connections_within

COMPLETIONS = "/v1/chat/completions"


def run_command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trioroute", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=cwd,
    )


def free_addresses() -> tuple[str, str]:
    return f"--listen=127.0.0.1:{free_port()}", f"--admin=127.0.0.1:{free_port()}"


def test_serve_without_replicas_is_a_usage_error(tmp_path: Path) -> None:
    done = run_command("serve", cwd=tmp_path)
    assert done.returncode == 2
    assert "--replica" in done.stderr
    assert not list(tmp_path.iterdir()), "nothing is made before the settings are good"


def test_the_start_tells_in_one_line_where_all_is_and_how_to_reload_and_stop_it(
    fleet: Fleet,
) -> None:
    fleet.engine()
    router = fleet.router().ready()
    wait_for("the line", lambda: "stop: kill" in router.text())
    (line,) = [line for line in router.text().splitlines() if line.startswith("trioroute ")]
    pid, admin = router.popen.pid, router.admin
    assert line == (
        f"trioroute {__version__}: API {router.url}/v1, admin {admin}, log {router.log} (new), "
        f"1 replica, pid {pid}; dashboard {admin}/, reload: kill -HUP {pid}, stop: kill {pid}"
    )


def test_all_errors_of_a_settings_file_are_told_at_once(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text('[scrape]\nintervall = 3\n[log]\nsync = "sometimes"\n')
    for command in (["check", str(bad)], ["serve", "--config", str(bad)]):
        done = run_command(*command, cwd=tmp_path)
        assert done.returncode == 2
        assert "interval" in done.stderr
        assert "log.sync" in done.stderr


def test_a_second_router_on_one_log_is_refused_with_the_pid_of_the_first(fleet: Fleet) -> None:
    engine = fleet.engine()
    router = fleet.router().ready()
    second = run_command(
        "serve",
        f"--replica={engine.url}",
        *free_addresses(),
        f"--log={router.log}",
    )
    assert second.returncode != 0
    assert str(router.popen.pid) in second.stderr
    assert httpx.post(router.url + COMPLETIONS, json=chat()).status_code == 200


def test_a_log_of_a_newer_release_is_refused_and_left_as_it_is(fleet: Fleet) -> None:
    engine = fleet.engine()
    router = fleet.router().ready()
    router.stop()
    path = router.log / "log-1.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as base:
        (version,) = base.execute("PRAGMA user_version").fetchone()
        base.execute(f"PRAGMA user_version = {version + 1}")
        rows = base.execute("SELECT count(*) FROM events").fetchone()
    refused = run_command(
        "serve", f"--replica={engine.url}", f"--log={router.log}", *free_addresses()
    )
    assert refused.returncode != 0
    assert "newer" in refused.stderr
    assert router.replay("--verify").returncode == 2
    with contextlib.closing(sqlite3.connect(path)) as base:
        assert base.execute("SELECT count(*) FROM events").fetchone() == rows


def test_an_event_kind_of_a_newer_release_is_refused_before_anything_is_written(
    fleet: Fleet,
) -> None:
    engine = fleet.engine()
    router = fleet.router().ready()
    router.stop()
    path = router.log / "log-1.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as base:
        base.execute("UPDATE events SET kind = 'Teleported' WHERE kind = 'Stopped'")
        base.commit()
        rows = base.execute("SELECT count(*) FROM events").fetchone()
    refused = run_command(
        "serve", f"--replica={engine.url}", f"--log={router.log}", *free_addresses()
    )
    assert refused.returncode != 0
    assert "Teleported" in refused.stderr
    with contextlib.closing(sqlite3.connect(path)) as base:
        assert base.execute("SELECT count(*) FROM events").fetchone() == rows


@pytest.mark.parametrize("descriptors", [256, 1024, 4096, 1 << 20])
def test_both_ports_full_leave_descriptors_for_the_log(descriptors: int) -> None:
    data, admin = connections_within(descriptors)
    assert 2 * data + admin + 40 <= descriptors
    assert 64 <= admin <= 256
    assert data >= min(descriptors // 4, 8192)


def test_sigterm_fails_readiness_then_refuses_then_lets_streams_finish(fleet: Fleet) -> None:
    fleet.engine("--decode-tokens-per-s=20")
    router = fleet.router(server_settle="1s").ready()
    bodies: list[str] = []

    def stream() -> None:
        answer = httpx.post(
            router.url + COMPLETIONS, json=chat(stream=True, max_tokens=60), timeout=20
        )
        bodies.append(answer.text)

    thread = threading.Thread(target=stream)
    thread.start()
    wait_for("the stream running", lambda: router.replica("gpu1")["in_flight"] == 1)
    begun = time.monotonic()
    router.popen.send_signal(signal.SIGTERM)
    wait_for("not ready", lambda: status_of(router.admin + "/readyz") == 503)
    with httpx.Client() as kept:
        settling = kept.post(router.url + COMPLETIONS, json=chat(max_tokens=1))
        if time.monotonic() - begun < 0.9:
            assert settling.status_code == 200, "a balancer has not noticed yet"
        assert settling.headers["connection"] == "close", "or it would meet a closed connection"
        wait_for("refusing", lambda: kept.post(router.url + COMPLETIONS, json=chat()).is_error)
        refused = kept.post(router.url + COMPLETIONS, json=chat())
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "shutting_down"
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["connection"] == "close"
    assert not bodies, "the stream ran while new requests were refused"
    thread.join(20)
    assert bodies[0].endswith("data: [DONE]\n\n")
    assert router.popen.wait(40) == 0
    assert "Stopped" in kinds_in(router.log)
    router.verify()


def test_every_head_that_a_router_published_is_proved_by_log_verify(fleet: Fleet) -> None:
    fleet.engine()
    router = fleet.router().ready()
    assert httpx.post(router.url + COMPLETIONS, json=chat(max_tokens=1)).status_code == 200
    heads = [httpx.get(router.admin + "/state").json()["log_head"]]
    router.stop()
    with contextlib.closing(sqlite3.connect(router.log / "log-1.sqlite")) as base:
        query = "SELECT body ->> 'head' FROM events WHERE kind = 'Stopped'"
        heads.append(base.execute(query).fetchone()[0])
    for head in heads:
        proved = run_command("log", "verify", str(router.log), "--head", head)
        assert proved.returncode == 0, proved.stdout + proved.stderr
    seq, _, chain = heads[0].partition(":")
    other = f"{seq}:{chain[::-1]}"
    assert run_command("log", "verify", str(router.log), "--head", other).returncode == 1


def test_the_grace_counts_from_the_signal_for_streams_and_for_half_sent_requests(
    fleet: Fleet,
) -> None:
    fleet.engine("--decode-tokens-per-s=2")
    router = fleet.router(server_graceful_timeout="6s", server_settle="5s").ready()
    with socket.create_connection(("127.0.0.1", router.port)) as half_sent:
        half_sent.sendall(
            b"POST /v1/completions HTTP/1.1\r\nhost: r\r\ncontent-length: 99\r\n\r\n{"
        )
        with httpx.stream(
            "POST", router.url + COMPLETIONS, json=chat(stream=True, max_tokens=500), timeout=40
        ) as answer:
            assert answer.status_code == 200
            begun = time.monotonic()
            router.popen.send_signal(signal.SIGTERM)
            with pytest.raises(httpx.RemoteProtocolError):
                answer.read()
            assert router.popen.wait(30) == 0
            assert 5.5 < time.monotonic() - begun < 10.5, "11 s: it would count from the settling"
    assert "shutdown" in router.replay("--last", "1", "--json").stdout
    router.verify()


def test_files_that_block_for_ever_do_not_keep_the_router(fleet: Fleet, tmp_path: Path) -> None:
    fleet.engine()
    access_log, listed = tmp_path / "access", tmp_path / "list.toml"
    os.mkfifo(access_log)
    os.mkfifo(listed)
    router = fleet.router(
        server_graceful_timeout="60s",
        server_settle="0s",
        server_access_log=str(access_log),
        discovery_file_path=str(listed),
    ).ready()
    assert httpx.post(router.url + COMPLETIONS, json=chat()).status_code == 200
    time.sleep(0.5)  # a batch is on its way
    assert router.stop(within_s=40) == 0, "the grace is 60 s"
    router.verify()


def test_an_access_log_on_a_stderr_that_nobody_reads_does_not_keep_the_router(
    tmp_path: Path,
) -> None:
    port, admin = free_port(), free_port()
    command = [sys.executable, "-m", "trioroute", "serve", "--replica=http://127.0.0.1:9"]
    command += [f"--listen=127.0.0.1:{port}", f"--admin=127.0.0.1:{admin}"]
    command += [f"--log={tmp_path / 'log'}"]
    env = {
        **os.environ,
        "TRIOROUTE_SERVER_ACCESS_LOG": "stderr",
        "TRIOROUTE_SERVER_SETTLE": "0s",
        "TRIOROUTE_SERVER_GRACEFUL_TIMEOUT": "60s",
    }
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=env) as router:
        try:
            ask = partial(httpx.get, f"http://127.0.0.1:{port}/v1/models")
            wait_for("the router up", ask)
            with httpx.Client() as kept:
                for _ in range(400):  # more lines than a pipe of 64 KiB holds
                    kept.get(f"http://127.0.0.1:{port}/v1/models")
            time.sleep(0.5)  # a batch is on its way
            router.send_signal(signal.SIGTERM)
            assert router.wait(40) == 0
        finally:
            router.kill()


def test_a_second_signal_hurries(fleet: Fleet) -> None:
    fleet.engine("--decode-tokens-per-s=2")
    router = fleet.router(server_graceful_timeout="60s").ready()
    with httpx.stream(
        "POST", router.url + COMPLETIONS, json=chat(stream=True, max_tokens=500), timeout=20
    ) as answer:
        assert answer.status_code == 200
        router.popen.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert router.popen.poll() is None
        router.popen.send_signal(signal.SIGINT)
        assert router.popen.wait(40) == 0, "the grace is 60 s"
    assert "shutdown" in router.replay("--last", "1", "--json").stdout
    router.verify()


def test_many_signals_at_once_still_close_the_log(fleet: Fleet) -> None:
    fleet.engine("--decode-tokens-per-s=2")
    router = fleet.router(server_graceful_timeout="60s").ready()
    with httpx.stream(
        "POST", router.url + COMPLETIONS, json=chat(stream=True, max_tokens=500), timeout=20
    ) as answer:
        assert answer.status_code == 200
        for _ in range(4):
            router.popen.send_signal(signal.SIGTERM)
            time.sleep(0.01)
        assert router.popen.wait(40) == 0, "the grace is 60 s"
    assert "Stopped" in kinds_in(router.log)
    router.verify()


def test_ports_in_use_are_named(fleet: Fleet, tmp_path: Path) -> None:
    engine = fleet.engine().ready()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_command(
            "serve",
            f"--replica={engine.url}",
            f"--listen=127.0.0.1:{port}",
            f"--admin=127.0.0.1:{free_port()}",
            f"--log={tmp_path / 'other'}",
        )
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--listen" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "other").exists(), "no run begins in a log before the ports are had"


def test_two_clients_at_one_instant_do_not_share_the_idle_replica(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.engine("--decode-tokens-per-s=50")
    router = fleet.router(scrape_interval="5s").ready()
    for _ in range(5):
        start = threading.Barrier(2)
        where: list[str] = []

        def ask(start: threading.Barrier = start, where: list[str] = where) -> None:
            start.wait()
            answer = httpx.post(router.url + COMPLETIONS, json=chat(max_tokens=20))
            where.append(answer.headers["x-trioroute-replica"])

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(where) == ["gpu1", "gpu2"]
