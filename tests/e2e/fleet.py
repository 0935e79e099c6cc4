"""Real processes for tests: simulated replicas and the router, on loopback, ended with the test."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

import httpx
from click.testing import CliRunner

from tests.ports import free_port
from trioroute.cli.replay import replay_command

WAIT_S = 100.0
"""Costs nothing where all is well: two busy CPUs once took 45 s to start a router."""

CLIENT = httpx.Client(limits=httpx.Limits(max_keepalive_connections=0))
"""For what is asked again and again until something has happened, each time on a new connection:
``httpx.get`` makes a client each time, 6 ms of the CPU that a starting process needs."""


def wait_for(what: str, check: Callable[[], object], within_s: float = WAIT_S) -> Any:
    """Poll until ``check`` gives something true; its exceptions count as not yet."""
    deadline = time.monotonic() + within_s
    last: object = None
    while time.monotonic() < deadline:
        try:
            last = check()
        except (httpx.HTTPError, OSError) as error:
            last = error
        else:
            if last:
                return last
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {within_s} s; last seen: {last!r}")


def status_of(url: str) -> int:
    return CLIENT.get(url).status_code


class Process:
    """One command of ours, its output in a file."""

    def __init__(
        self,
        output: Path,
        *arguments: str,
        env: dict[str, str] | None = None,
        under: tuple[str, ...] = (),
    ) -> None:
        """``under`` is a command that runs the rest of its own command line, such as ``nice``."""
        self.output = output
        with output.open("ab") as sink:
            self.popen = subprocess.Popen(
                [*under, sys.executable, "-m", "trioroute", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            )

    def text(self) -> str:
        return self.output.read_text("utf-8", "replace")

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def stop(self, number: int = signal.SIGTERM, within_s: float = WAIT_S) -> int:
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        return self.popen.wait(within_s)


class Named(Protocol):
    """A replica as the router is told of it, simulated or real."""

    @property
    def name(self) -> str: ...

    @property
    def url(self) -> str: ...


class Engine(Process):
    """A simulated replica; ``port`` stays the same when it is started again."""

    def __init__(self, directory: Path, name: str, *options: str, port: int | None = None) -> None:
        self.name = name
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._directory, self._options = directory, options
        self.start()

    def start(self) -> None:
        super().__init__(
            self._directory / f"{self.name}.out",
            "engine",
            "--listen",
            f"127.0.0.1:{self.port}",
            *self._options,
        )

    def ready(self) -> Self:
        wait_for(f"{self.name} up", lambda: status_of(self.url + "/health") == 200)
        return self

    def faults(self, **faults: object) -> None:
        httpx.post(self.url + "/faults", json=faults).raise_for_status()


class RouterProcess(Process):
    """``trioroute serve`` with short times; the same log and ports when started again."""

    def __init__(
        self,
        directory: Path,
        engines: Sequence[Named],
        *,
        env: dict[str, str],
        config: Path | None = None,
        under: tuple[str, ...] = (),
    ) -> None:
        self.log = directory / "log"
        self.port, self.admin_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.admin = f"http://127.0.0.1:{self.admin_port}"
        self._directory = directory
        self._replicas = [f"--replica={engine.name}={engine.url}" for engine in engines]
        self._env = env
        self._under = under
        self.config = config
        self.start()

    def start(self) -> None:
        super().__init__(
            self._directory / "router.out",
            "serve",
            f"--listen=127.0.0.1:{self.port}",
            f"--admin=127.0.0.1:{self.admin_port}",
            f"--log={self.log}",
            *self._replicas,
            *([f"--config={self.config}"] if self.config else []),
            env=self._env,
            under=self._under,
        )

    def again(self, *, under: tuple[str, ...]) -> None:
        """Start it once more, under another command."""
        self._under = under
        self.start()

    def ready(self) -> Self:
        def check() -> bool:
            assert self.popen.poll() is None, self.text()
            return status_of(self.admin + "/readyz") == 200

        wait_for("the router ready", check)
        return self

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = CLIENT.get(self.admin + "/state").json()
        return found

    def replica(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(r for r in self.state()["replicas"] if r["name"] == name)
        return found

    def quiet(self) -> None:
        """Wait until nothing is in flight."""
        wait_for(
            "zero in flight",
            lambda: all(r["in_flight"] == 0 for r in self.state()["replicas"]),
        )

    def home(self, session: str) -> str:
        """Where its pin leads, after one small request. That request may spill: a replica's page
        that was made while the request before it ran shows it as another router's load."""
        body, named = chat(max_tokens=1), {"x-session-id": session}
        url = self.url + "/v1/chat/completions"
        answer = httpx.post(url, json=body, headers=named, timeout=20)
        assert answer.status_code == 200, answer.text
        decision = answer.headers["x-trioroute-decision"]
        told = httpx.get(f"{self.admin}/decisions/{decision}", timeout=20).raise_for_status().json()
        moved = [each for each in told["followed"]["pin_events"] if each["event"] != "Spilled"]
        pinned: str = (moved[-1] if moved else told["pin"])["replica"]
        return pinned

    def replay(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command on this log, in this process: a third of a second of imports less."""
        with contextlib.suppress(AssertionError):  # down, or its log is: then what there is
            wait_for("all on disk", self._on_disk, 10)
        done = CliRunner().invoke(replay_command, [str(self.log), *arguments])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)

    def _on_disk(self) -> bool:
        if self.popen.poll() is not None:
            return True
        state = self.state()
        if "position" not in state:  # the admin port wants a token: whoever gave it one may wait
            return True
        if "log" in state["reason"]:  # it is stalled: nothing more comes of it
            return True
        return bool(state["durable_position"] >= state["position"])

    def verify(self) -> str:
        done = self.replay("--verify")
        assert done.returncode == 0, done.stdout + done.stderr + self.text()
        return done.stdout


class Fleet:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.engines: list[Engine] = []
        self.routers: list[RouterProcess] = []

    def engine(self, *options: str, name: str | None = None) -> Engine:
        engine = Engine(
            self.directory, name or f"gpu{len(self.engines) + 1}", "--model=tiny", *options
        )
        self.engines.append(engine)
        return engine

    def router(
        self, *, config: Path | None = None, under: tuple[str, ...] = (), **env: str
    ) -> RouterProcess:
        """Over all engines, or over those that ``config`` names."""
        for engine in self.engines:
            engine.ready()
        short = {
            "TRIOROUTE_SCRAPE_INTERVAL": "200ms",
            "TRIOROUTE_SCRAPE_TIMEOUT": "1s",
            "TRIOROUTE_SERVER_GRACEFUL_TIMEOUT": "5s",
        }
        names = {f"TRIOROUTE_{key.upper()}": value for key, value in env.items()}
        router = RouterProcess(
            self.directory,
            [] if config else self.engines,
            env={**short, **names},
            config=config,
            under=under,
        )
        self.routers.append(router)
        return router

    def stop(self) -> None:
        for process in (*self.routers, *self.engines):
            process.popen.kill()
        for process in (*self.routers, *self.engines):
            process.popen.wait()


@contextmanager
def fleet_in(directory: Path) -> Iterator[Fleet]:
    fleet = Fleet(directory)
    try:
        yield fleet
    finally:
        fleet.stop()


def kinds_in(log: Path) -> set[str]:
    """The event kinds that a log holds."""
    with contextlib.closing(sqlite3.connect(f"file:{log / 'log-1.sqlite'}?mode=ro", uri=True)) as b:
        return {row[0] for row in b.execute("SELECT DISTINCT kind FROM events")}


def chat(content: str = "hello", **fields: object) -> dict[str, object]:
    return {
        "model": "tiny",
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 8,
        **fields,
    }
