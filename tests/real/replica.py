"""One real vLLM as a group of processes: started, killed, frozen and looked at."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.fleet import wait_for
from tests.ports import free_port

START = Path(__file__).with_name("start_vllm.sh")
READY_WITHIN_S = 300.0


class Replica:
    """``url`` stays the same when it is started again. It leads a process group of its own, for
    its EngineCore and Worker outlive a killed API server."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.output = directory / f"{name}.out"
        self.ready_s: list[float] = []
        self.start()

    def start(self) -> None:
        self.is_ready = self.leaving = False
        self._started = time.monotonic()
        with self.output.open("ab") as sink:
            self.popen = subprocess.Popen(
                ["bash", str(START), str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def ready(self) -> Self:
        """Wait until it answers; until then it refuses connections."""

        def answers() -> bool:
            assert self.popen.poll() is None, self.output.read_text("utf-8", "replace")[-3000:]
            return httpx.get(self.url + "/health").status_code == 200

        wait_for(f"{self.name} ready", answers, READY_WITHIN_S)
        if not self.is_ready:
            self.is_ready = True
            self.ready_s.append(time.monotonic() - self._started)
        return self

    @property
    def up(self) -> bool:
        return self.popen.poll() is None

    def kill(self) -> None:
        """SIGKILL for the server and its engine at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        wait_for(f"all of {self.name} gone", lambda: not list(self._group()))

    def terminate(self) -> None:
        """SIGTERM, as an orchestrator sends it: to the server alone."""
        self.leaving = True
        self.popen.terminate()

    def freeze(self) -> None:
        """Stop the worker alone: the server goes on and says that it is healthy."""
        for pid in self._workers():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self._workers():
            os.kill(pid, signal.SIGCONT)

    def gauge(self, name: str) -> float:
        """A gauge of its metrics page, asked now, e.g. ``vllm:num_requests_running``."""
        page = httpx.get(self.url + "/metrics", timeout=10).text
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name == name:
                    return sample.value
        raise AssertionError(f"{self.name} has no {name}")

    def idle(self) -> bool:
        return not (
            self.gauge("vllm:num_requests_running") or self.gauge("vllm:num_requests_waiting")
        )

    def _workers(self) -> list[int]:
        found = [pid for pid in self._group() if b"Worker" in _command(pid)]
        assert found, f"no worker among {[_command(pid) for pid in self._group()]}"
        return found

    def _group(self) -> Iterator[int]:
        """The live processes of its group."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    # pid (name, which may hold anything) state parent group ...
                    state, _, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
                    if int(group) == self.popen.pid and state != "Z":
                        yield int(entry.name)


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
