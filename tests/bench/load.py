"""One run of the load generator, and what it measured. ``load.c`` says what each option does."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from tests.bench.processes import piped

ERRORS_MAX = 0.001
"""The share of wrong responses above which a figure is none."""


class RunFailedError(Exception):
    """The run gave no figure; the text says why, in a table's words."""


@attrs.frozen
class Quantiles:
    """Microseconds."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


@attrs.frozen
class Outcome:
    """What was measured between ``begin`` and the end; ``cpu_s`` is the watched tree's CPU time."""

    seconds: float
    done: int
    begun: int
    chunks: int
    late: int
    gone: int
    bytes: int
    last_status: int
    errors: Mapping[str, int]
    latency: Quantiles
    first_byte: Quantiles
    transit: Quantiles
    gap: Quantiles
    left: Mapping[int, int] = attrs.field(factory=dict)
    cpu_s: float = 0.0

    @property
    def wrong(self) -> int:
        return sum(self.errors.values())

    def checked(self) -> "Outcome":
        """Itself, if it can be believed. Raises ``RunFailedError`` otherwise."""
        made = self.done + self.chunks
        if self.wrong > ERRORS_MAX * made:
            kinds = ", ".join(f"{count} {kind}" for kind, count in self.errors.items() if count)
            status = f", status {self.last_status}" if self.errors.get("status") else ""
            raise RunFailedError(f"wrong responses: {kinds}{status}; right: {self.done}")
        if not made:
            raise RunFailedError("no response within the time")
        return self


def parse_outcome(line: str) -> Outcome:
    """The generator's last line."""
    told: dict[str, Any] = json.loads(line)
    for name in ("latency", "first_byte", "transit", "gap"):
        told[name] = Quantiles(**told[name])
    return Outcome(**told)


@attrs.frozen
class Load:
    """What to send; every field is an option of the generator of that name."""

    conns: int
    spec: str
    body: int = 2048
    stream: bool = False
    settle: bool = False
    once: bool = False
    warmup_ms: int = 300
    ms: int = 1000
    length: int = -1
    marks: int = -1
    stagger_ms: int = 0
    rate: int = 0
    leave_ms: int = 0
    leave_permille: int = 1000

    def options(self) -> list[str]:
        words: list[str] = []
        for field in attrs.fields(Load):
            value, option = getattr(self, field.name), f"--{field.name.replace('_', '-')}"
            if value is True:
                words.append(option)
            elif value is not False:
                words += [option, str(value)]
        return words


@attrs.frozen
class Generator:
    """The compiled generator, and the CPU it runs on."""

    program: Path
    cpu: int | None

    @contextmanager
    def started(self, port: int, load: Load) -> Iterator[Callable[[], Outcome]]:
        """A load in the background. What is given waits for its end, and tells what it was."""
        with piped(self._command(port, load), self.cpu) as process:
            assert process.stdout is not None
            output = process.stdout

            def ended() -> Outcome:
                return parse_outcome(output.read().splitlines()[-1])

            yield ended

    def _command(self, port: int, load: Load) -> list[str | Path]:
        return [self.program, "--port", str(port), *load.options()]

    def run(
        self,
        port: int,
        load: Load,
        cpu_now: Callable[[], float] = lambda: 0.0,
        all_open: Callable[[], None] | None = None,
    ) -> Outcome:
        """``cpu_now`` is read at the begin and the end of what is measured. ``all_open`` is called
        when every connection has its first mark, and then the run ends. Raises
        ``RunFailedError``."""
        begin_s, left = cpu_now(), dict[int, int]()
        with piped(self._command(port, load), self.cpu) as process:
            assert process.stdout is not None
            for line in process.stdout:
                words = line.split()
                if line.startswith("{"):
                    outcome = parse_outcome(line)
                    return attrs.evolve(outcome, left=left, cpu_s=cpu_now() - begin_s)
                if words == ["begin"]:
                    begin_s = cpu_now()
                elif words == ["all", "open"] and all_open is not None:
                    all_open()
                    process.terminate()
                elif words[0] == "left":
                    left[int(words[1])] = int(words[2])
        raise RunFailedError(f"the load generator ended with {process.returncode}")


def until(what: Callable[[], bool], within_s: float, every_s: float = 0.05) -> bool:
    """Whether it came true within the time."""
    deadline = time.monotonic() + within_s
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True
