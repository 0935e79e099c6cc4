"""Targets while they run: started, awaited, and addressed by the measurements."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import httpx

from tests.bench import proc
from tests.bench.install import NotAvailableError
from tests.bench.load import Generator, Load, Outcome, until
from tests.bench.places import Cpus
from tests.bench.processes import last_lines, running
from tests.bench.targets import Place, Target
from tests.bench.upstream import MODEL, Upstream
from tests.ports import free_port

LET_GO_S = 3.0
"""A busy proxy needs a while to close its streams; a cut would look like a dying replica."""

CALM_S, CALM_STEP_S, CALM_SHARE = 20.0, 0.25, 0.2
"""A proxy is calm when it uses less than this share of a CPU in one step."""


@attrs.frozen
class Standing:
    """A target that answers. ``pid`` is the root of its processes, ``None`` for ``direct``."""

    target: Target
    port: int
    admin_port: int
    pid: int | None
    directory: Path
    generator: Generator
    upstream: Upstream

    def load(self, load: Load) -> Outcome:
        """One run against it, CPU time of its tree counted. Raises ``RunFailedError``."""
        if not self.target.same_bytes:
            load = attrs.evolve(load, length=-1)
        load = attrs.evolve(load, ms=load.ms * self.target.patience)
        return self.generator.run(self.port, load, self.cpu_s)

    def calm_down(self) -> None:
        """Waits until it does nothing any more. Not every proxy ends the streams of clients that
        left: those are broken off, or they would run on beside whoever is measured next."""
        if not until(lambda: self.upstream.stats()["running"] == 0, LET_GO_S):
            self.upstream.cut()
        until(self._idle, CALM_S, 0.0)

    def _idle(self) -> bool:
        before_s = self.cpu_s()
        time.sleep(CALM_STEP_S)
        return self.cpu_s() - before_s < CALM_SHARE * CALM_STEP_S

    def cpu_s(self) -> float:
        return proc.cpu_s(self.pid) if self.pid is not None else 0.0


@attrs.frozen
class Arena:
    """What is the same for all targets of a run."""

    directory: Path
    cpus: Cpus
    generator: Generator
    upstream: Upstream

    @contextmanager
    def standing(self, target: Target, name: str = "") -> Iterator[Standing]:
        """The target, once it answers a request. Raises ``NotAvailableError``."""
        directory = self.directory / (name or target.name)
        if target.launch is None:
            port = self.upstream.ports[0]
            yield Standing(target, port, 0, None, directory, self.generator, self.upstream)
            return
        program = target.find()
        directory.mkdir(parents=True)
        port, admin_port = free_port(), free_port()
        launch = target.launch(program, Place(port, admin_port, directory, self.upstream.ports))
        for name_of_file, text in launch.files.items():
            (directory / name_of_file).write_text(text)
        output = directory / "output"
        with running(launch.command, output, self.cpus.proxy, launch.env) as process:

            def ready() -> bool:
                return process.poll() is not None or answers(port)

            if not until(ready, target.start_s) or process.poll() is not None:
                raise NotAvailableError(f"does not start: {last_lines(output)}")
            yield Standing(
                target, port, admin_port, process.pid, directory, self.generator, self.upstream
            )


def answers(port: int) -> bool:
    """Whether a small request gets a whole 200."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "[[reply=512]]"}]}
    try:
        answer = httpx.post(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            content=json.dumps(body),
            headers={"content-type": "application/json"},
            timeout=5.0,
        )
    except httpx.HTTPError:
        return False
    return answer.status_code == 200 and "[t=" in answer.text
