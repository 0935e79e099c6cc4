"""A real GPUStack server as a process, and what a test does with it through its own API."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import attrs
import httpx

from tests.e2e.fleet import wait_for
from tests.ports import free_port

START = Path(__file__).with_name("start_gpustack.sh")
PASSWORD = "Trio-Admin-1"
READY_WITHIN_S = 240.0
SETTLED_S = 1.5

Row = dict[str, Any]


class GpuStack:
    """The server and its database; ``url`` and data stay the same when it is started again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = _free_run(4)
        self.url = f"http://127.0.0.1:{self.port}"
        self.output = directory / "gpustack.out"
        self.ready_s: list[float] = []
        self.popen: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        began = time.monotonic()
        with self.output.open("ab") as sink:
            started = self.popen = subprocess.Popen(
                ["bash", str(START), str(self.port), str(self.directory)],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

        def answers() -> bool:
            assert started.poll() is None, self.output.read_text("utf-8", "replace")[-3000:]
            return httpx.get(self.url + "/healthz").status_code == 200

        wait_for("GPUStack ready", answers, READY_WITHIN_S)
        self.ready_s.append(time.monotonic() - began)

    def stop(self) -> None:
        """With its database; the script's own trap ends both."""
        if self.popen is not None and self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self.popen.pid, signal.SIGKILL)
                self.popen.wait()


def _free_run(count: int) -> int:
    """A port with ``count`` - 1 free ones behind it."""
    for _ in range(100):
        first = free_port()
        if first + count < 65536 and all(_is_free(first + n) for n in range(1, count)):
            return first
    raise AssertionError("no free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@attrs.define
class Admin:
    """What an administrator does: log in, make a key, models, and instances that run."""

    client: httpx.Client
    key: str

    @classmethod
    def of(cls, server: GpuStack) -> "Admin":
        alone = httpx.Limits(max_keepalive_connections=0)  # the server is stopped now and then
        client = httpx.Client(base_url=server.url, timeout=20, limits=alone)
        asked = {"username": "admin", "password": PASSWORD}
        client.post("/auth/login", data=asked).raise_for_status()
        made = client.post("/v2/api-keys", json={"name": "trioroute", "expires_in": 0})
        key = made.raise_for_status().json()["value"]
        client.cookies.clear()
        client.headers["authorization"] = f"Bearer {key}"
        return cls(client, key)

    def rows(self, path: str) -> list[Row]:
        found: list[Row] = self.client.get(path).raise_for_status().json()["items"]
        return found

    def model(self, name: str, replicas: int) -> list[Row]:
        """A new model, and the instances that GPUStack's own controller makes for it."""
        clusters = self.rows("/v2/clusters")
        if not clusters:
            self._post("/v2/clusters", {"name": "c1", "provider": "Docker"})
            clusters = self.rows("/v2/clusters")
        told = {"source": "local_path", "local_path": f"/srv/{name}", "backend": "vLLM"}
        more = {"name": name, "replicas": replicas, "cluster_id": clusters[0]["id"]}
        self._post("/v2/models", {**told, **more})

        def made() -> list[Row]:
            ours = [one for one in self.rows("/v2/model-instances") if one["model_name"] == name]
            return ours if len(ours) >= replicas else []

        found: list[Row] = wait_for(f"instances of {name}", made, 60)
        return found

    def runs(self, instance: Row, port: int, **fields: object) -> None:
        """As a worker reports it: the instance runs on this machine.

        Told again until it stays so: GPUStack's scheduler, which looks for a worker meanwhile,
        writes the state that it read before.
        """
        path = f"/v2/model-instances/{instance['id']}"
        wanted: Row = {"state": "running", "state_message": None, "worker_name": "w1"}
        wanted |= {"worker_ip": "127.0.0.1", "worker_advertise_address": "127.0.0.1"}
        wanted |= {"port": port, "ports": [port], **fields}

        def stays() -> bool:
            now = self.client.get(path).raise_for_status().json()
            self.client.put(path, json=now | wanted).raise_for_status()
            time.sleep(SETTLED_S)
            there = self.client.get(path).raise_for_status().json()
            return (there["state"], there["port"]) == (wanted["state"], port)

        wait_for(f"{instance['name']} {wanted['state']}", stays, 60)

    def delete(self, instance: Row) -> None:
        self.client.delete(f"/v2/model-instances/{instance['id']}").raise_for_status()

    def _post(self, path: str, body: object) -> None:
        answer = self.client.post(path, json=body)
        assert answer.is_success, answer.text
