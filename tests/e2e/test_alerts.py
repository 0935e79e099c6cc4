"""The alert rules before a real Prometheus: silent while all is well, firing in each trouble.

The rules are the shipped ones with minutes turned into seconds, so that trouble is soon told.
"""

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.e2e.fleet import Fleet, RouterProcess, chat, wait_for
from tests.ports import free_port
from trioroute.events.sections import Eject
from trioroute.observe.alerts import rules_file

PROMETHEUS = shutil.which("prometheus")
pytestmark = [
    pytest.mark.timeout(200),
    pytest.mark.skipif(
        PROMETHEUS is None and not os.environ.get("CI"),
        reason="prometheus is not installed (Debian and Ubuntu: apt install prometheus)",
    ),
]


def hurried() -> str:
    """The shipped rules, sixty times as fast: minutes become seconds."""
    rules = rules_file(Eject(cooldown_ms=2000, cooldown_max_ms=4000))
    faster = re.sub(r"(?<=\[|\s)(\d+)m(?=\]|\n)", r"\1s", rules)
    faster = faster.replace("for: 30s", "for: 1s").replace("> 60", "> 6").replace("[1s]", "[2s]")
    # In 2 s a healthy log may stand still; scrapes append to it in any 6 s, as in any minute.
    position = "trioroute_log_durable_position"
    return faster.replace(f"delta({position}[2s])", f"delta({position}[6s])")


class Prometheus:
    def __init__(self, directory: Path, routers: Sequence[RouterProcess]) -> None:
        assert PROMETHEUS is not None, "prometheus is missing: apt install prometheus"
        directory.mkdir()
        (directory / "rules.yml").write_text(hurried())
        targets = ", ".join(f'"127.0.0.1:{router.admin_port}"' for router in routers)
        (directory / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 500ms}\n"
            "rule_files: [rules.yml]\n"
            f"scrape_configs: [{{job_name: t, static_configs: [{{targets: [{targets}]}}]}}]\n"
        )
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        with (directory / "out").open("wb") as sink:
            self.popen = subprocess.Popen(
                [
                    PROMETHEUS,
                    "--config.file=prometheus.yml",
                    "--enable-feature=exemplar-storage",
                    "--storage.tsdb.path=data",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )

    def firing(self, router: RouterProcess) -> set[str]:
        """The names of the alerts that fire for a router now."""
        found = httpx.get(self.url + "/api/v1/alerts").raise_for_status().json()["data"]["alerts"]
        where = f"127.0.0.1:{router.admin_port}"
        return {
            alert["labels"]["alertname"]
            for alert in found
            if alert["state"] == "firing" and alert["labels"].get("instance") == where
        }

    def exemplars(self, query: str) -> list[dict[str, str]]:
        """The labels of those that it stored for a series."""
        asked: dict[str, str | float] = {"query": query, "start": time.time() - 600}
        asked["end"] = time.time() + 60
        answer = httpx.get(self.url + "/api/v1/query_exemplars", params=asked).raise_for_status()
        return [one["labels"] for row in answer.json()["data"] for one in row["exemplars"]]

    def wait(self, router: RouterProcess, *names: str) -> None:
        wait_for(f"{names} to fire", lambda: set(names) <= self.firing(router), within_s=60)

    def scraped(self, router: RouterProcess) -> bool:
        query = f'up{{instance="127.0.0.1:{router.admin_port}"}}'
        answer = httpx.get(self.url + "/api/v1/query", params={"query": query}).raise_for_status()
        return [row["value"][1] for row in answer.json()["data"]["result"]] == ["1"]


@contextmanager
def prometheus_before(directory: Path, *routers: RouterProcess) -> Iterator[Prometheus]:
    started = Prometheus(directory, routers)
    try:
        for router in routers:
            wait_for("the first scrape", partial(started.scraped, router))
        yield started
    finally:
        started.popen.kill()
        started.popen.wait()


def ask(router: RouterProcess, session: str = "", *, max_tokens: int = 8) -> int:
    headers = {"x-session-id": session} if session else {}
    body = chat(max_tokens=max_tokens)
    url = router.url + "/v1/chat/completions"
    return httpx.post(url, json=body, headers=headers, timeout=60).status_code


def limit_file_size(router: RouterProcess, size: str) -> None:
    """What the router may write, as a full disk would have it; needs no mount."""
    pid = str(router.popen.pid)
    subprocess.run(["prlimit", "--pid", pid, f"--fsize={size}:unlimited"], check=True)


def test_silent_while_well_then_each_trouble_is_told(fleet: Fleet, tmp_path: Path) -> None:
    one, two = fleet.engine(), fleet.engine()
    router = fleet.router(
        eject_stall_after="1s",
        eject_cooldown="2s",
        eject_cooldown_max="4s",
        probing_window="300ms",
    ).ready()
    with prometheus_before(tmp_path / "prometheus", router) as prometheus:
        for _ in range(30):
            assert ask(router) == 200
        time.sleep(7)
        assert prometheus.firing(router) == set()

        limit_file_size(router, "1000")
        prometheus.wait(router, "TriorouteLogNotWritten")
        limit_file_size(router, "unlimited")
        wait_for("silence after the log", lambda: prometheus.firing(router) == set(), 30)

        with ThreadPoolExecutor(2) as pool:
            held = [pool.submit(ask, router, max_tokens=300) for _ in range(2)]
            wait_for("it runs", lambda: router.replica("gpu1")["running"])
            one.faults(freeze=True)
            prometheus.wait(router, "TriorouteReplicaStalled")
            one.faults()
            assert [future.result() for future in held] == [200, 200]

        two.kill()
        wait_for("two out", lambda: router.replica("gpu2")["state"] == "EJECTED")
        assert "TriorouteNobodyRoutable" not in prometheus.firing(router)
        two.start()
        wait_for("two back", lambda: router.replica("gpu2")["state"] == "LIVE")
        two.kill()
        prometheus.wait(router, "TriorouteReplicaFlapping", "TriorouteReplicaEjected")
        assert "TriorouteProbingBroken" not in prometheus.firing(router)

        one.kill()
        prometheus.wait(router, "TriorouteNobodyRoutable", "TriorouteProbingBroken")


def test_one_agent_that_holds_a_replica_is_told(fleet: Fleet, tmp_path: Path) -> None:
    for _ in range(2):
        fleet.engine("--decode-tokens-per-s=20", "--max-running=64")
    router = fleet.router(policy_slack_session="50", pins_force_rebind="99").ready()
    over = threading.Event()

    def keep_asking() -> None:
        while not over.is_set():
            assert ask(router, "agent", max_tokens=40) == 200

    with prometheus_before(tmp_path / "prometheus", router) as prometheus:
        httpx.post(router.admin + "/replicas/gpu2/drain").raise_for_status()
        with ThreadPoolExecutor(20) as pool:
            agents = [pool.submit(keep_asking) for _ in range(20)]
            try:
                prometheus.wait(router, "TriorouteOneReplicaTakesAll")
                httpx.post(router.admin + "/replicas/gpu2/undrain").raise_for_status()
                prometheus.wait(router, "TriorouteImbalanced")
            finally:
                over.set()
            for agent in agents:
                agent.result()


def test_an_exemplar_in_prometheus_leads_to_the_decision(fleet: Fleet, tmp_path: Path) -> None:
    fleet.engine()
    router = fleet.router().ready()
    with prometheus_before(tmp_path / "prometheus", router) as prometheus:
        told = httpx.post(router.url + "/v1/chat/completions", json=chat())
        wanted = {"decision": told.headers["x-trioroute-decision"]}
        for name in ("time_to_first_byte", "request_duration"):
            query = f"trioroute_{name}_seconds_bucket"
            ask = partial(prometheus.exemplars, query)
            wait_for(query, lambda: wanted in ask())  # noqa: B023 - called before the next turn
    found = httpx.get(f"{router.admin}/decisions/{wanted['decision']}")
    assert found.json()["replica"] == "gpu1"
