"""The fake vLLM replicas: one process, two ports. ``upstream.c`` says what they answer."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx

from tests.bench.processes import piped

MODEL = "bench-model"


@attrs.frozen
class Upstream:
    """Running replicas."""

    ports: tuple[int, ...]

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    def stats(self) -> dict[str, Any]:
        """Counts over all ports since the start."""
        answer: dict[str, Any] = httpx.get(f"{self.urls[0]}/bench/stats").json()
        return answer

    def cut(self) -> None:
        """Breaks off every response that is under way."""
        httpx.get(f"{self.urls[0]}/bench/cut", timeout=10)

    def aborts(self) -> dict[int, int]:
        """When the reader of a response went away, CLOCK_MONOTONIC in ns, by the request's id."""
        text = httpx.get(f"{self.urls[0]}/bench/aborts").text
        pairs = (line.split() for line in text.splitlines())
        return {int(number): int(at_ns) for number, at_ns in pairs}


@attrs.define
class Replica:
    """One replica in a process of its own, at a port that it keeps when it is killed and started
    again."""

    program: Path
    cpu: int | None
    port: int = 0
    _life: ExitStack = attrs.field(factory=ExitStack)

    def start(self) -> None:
        running = self._life.enter_context(upstream(self.program, self.cpu, [self.port]))
        (self.port,) = running.ports

    def kill(self) -> None:
        """Its connections break, its port refuses. Nothing happens if it is dead."""
        self._life.close()


@contextmanager
def upstream(
    program: Path, cpu: int | None = None, ports: Sequence[int] = (0, 0)
) -> Iterator[Upstream]:
    with piped([program, *map(str, ports)], cpu) as process:
        assert process.stdout is not None
        told = process.stdout.readline().split()
        if len(told) != len(ports):
            raise OSError(f"the fake upstream did not start: exit code {process.wait()}")
        yield Upstream(tuple(int(port) for port in told))
