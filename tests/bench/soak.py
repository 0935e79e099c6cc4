"""A long run of trioroute alone: clients that leave, replicas that die, and nothing may grow."""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import attrs
import httpx

from tests.bench import proc
from tests.bench.arena import Arena, Standing
from tests.bench.load import Load, Outcome, RunFailedError, until
from tests.bench.targets import TARGETS
from tests.bench.upstream import Replica, Upstream

REPLICAS = 3
CONNS = 512
SPEC = "chunks=20 bytes=250 gap_us=20000 first_us=20000"
SHARE_OF_CEILING = 0.7
LEAVE_MS, LEAVE_PERMILLE = 500, 100
CEILING_MS = 3000
CALM_S = 15.0
REST_S = 6.0
"""Then kept connections to replicas are closed for their age: 4 s, looked for each second."""

INTERVAL_S = 60.0
SAMPLES_MIN = 4


@attrs.frozen
class Sample:
    """One interval: what was under way at its end, and what was left when it had calmed down."""

    minute: float
    memory_mb: float
    open_files: int
    threads: int
    in_flight: int
    done: int
    gone: int
    wrong: int
    first_byte_p99_ms: float

    def line(self) -> str:
        return (
            f"{self.minute:6.1f} min  {self.memory_mb:7.1f} MB  {self.open_files:5d} files  "
            f"{self.threads:3d} threads  {self.in_flight:3d} in flight  {self.done:7d} done  "
            f"{self.gone:6d} left  {self.wrong:5d} failed  p99 {self.first_byte_p99_ms:6.1f} ms"
        )


def grown(samples: Sequence[Sample]) -> list[str]:
    """What is larger at the end than at the begin, by more than noise: the medians of the first
    and the last third, without the first sample, in which caches fill."""
    third = max((len(samples) - 1) // 3, 1)
    first, last = samples[1 : 1 + third], samples[-third:]
    found = [
        _more("memory in MB", [s.memory_mb for s in first], [s.memory_mb for s in last], 1.15, 8),
        _more("open files", [s.open_files for s in first], [s.open_files for s in last], 1, 8),
        _more("threads", [s.threads for s in first], [s.threads for s in last], 1, 2),
        _more(
            "time to first byte p99 in ms",
            [s.first_byte_p99_ms for s in first],
            [s.first_byte_p99_ms for s in last],
            2,
            20,
        ),
    ]
    stuck = max(sample.in_flight for sample in samples)
    if stuck:
        found.append(f"in flight: {stuck} when nobody asked any more")
    if not all(sample.done for sample in samples):
        found.append("answers: none in some interval")
    return [text for text in found if text]


def _more(
    what: str, first: Sequence[float], last: Sequence[float], factor: float, beyond: float
) -> str:
    begin, end = median(first), median(last)
    return f"{what}: {begin:.0f} -> {end:.0f}" if end > begin * factor + beyond else ""


def soak(arena: Arena, program: Path, minutes: float, say: Callable[[str], None]) -> list[str]:
    """The whole run. Gives what grew or failed; an empty list is a good end."""
    replicas = [Replica(program, arena.cpus.load) for _ in range(REPLICAS)]
    with ExitStack() as stack:
        for replica in replicas:
            stack.callback(replica.kill)
            replica.start()
        ports = Upstream(tuple(replica.port for replica in replicas))
        own = attrs.evolve(arena, upstream=ports)
        standing = stack.enter_context(own.standing(TARGETS["trioroute"], "soak"))
        rate = max(round(ceiling(standing) * SHARE_OF_CEILING), 1)
        interval_s = min(INTERVAL_S, minutes * 60 / SAMPLES_MIN)
        part = f"{SHARE_OF_CEILING:.0%} of the ceiling"
        say(f"{rate} streams/s, {part}; a sample each {interval_s:g} s")
        samples = []
        for sample in sampled(standing, replicas, rate, minutes, interval_s):
            say(sample.line())
            samples.append(sample)
    return [*grown(samples), *verified(standing.directory / "log", say)]


def ceiling(standing: Standing) -> float:
    """Streams a second in a closed loop. Raises ``RunFailedError``."""
    load = Load(CONNS, SPEC, stream=True, settle=True, marks=20, stagger_ms=400, ms=CEILING_MS)
    outcome = standing.load(load).checked()
    if not outcome.done:
        raise RunFailedError("no stream ended within the time")
    return outcome.done / outcome.seconds


def sampled(
    standing: Standing,
    replicas: Sequence[Replica],
    rate: int,
    minutes: float,
    interval_s: float,
) -> Iterator[Sample]:
    began, chance = time.monotonic(), random.Random(1)
    assert standing.pid is not None
    for _ in range(max(SAMPLES_MIN, round(minutes * 60 / interval_s))):
        ms = round(interval_s * 1000)
        load = Load(CONNS, SPEC, stream=True, marks=20, warmup_ms=0, ms=ms, rate=rate)
        load = attrs.evolve(load, leave_ms=LEAVE_MS, leave_permille=LEAVE_PERMILLE)
        with standing.generator.started(standing.port, load) as ended:
            if all(replica["state"] == "LIVE" for replica in fleet(standing)):
                after_s = interval_s * chance.uniform(0.1, 0.5)
                trouble(chance.choice(replicas), after_s, interval_s / 5)
            outcome = ended()
        until(lambda: in_flight(standing) == 0, CALM_S)
        time.sleep(REST_S)
        yield sample(standing, outcome, (time.monotonic() - began) / 60)


def trouble(replica: Replica, after_s: float, for_s: float) -> None:
    """The replica is killed some time into the interval, and comes back."""
    time.sleep(after_s)
    replica.kill()
    time.sleep(for_s)
    replica.start()


def sample(standing: Standing, outcome: Outcome, minute: float) -> Sample:
    pid = standing.pid
    assert pid is not None
    return Sample(
        minute=minute,
        memory_mb=proc.memory_bytes(pid) / 1e6,
        open_files=proc.open_files(pid),
        threads=proc.threads(pid),
        in_flight=in_flight(standing),
        done=outcome.done,
        gone=outcome.gone,
        wrong=outcome.wrong,
        first_byte_p99_ms=outcome.first_byte.p99 / 1000,
    )


def in_flight(standing: Standing) -> int:
    """Of all replicas, as the router's state has it."""
    return sum(replica["in_flight"] for replica in fleet(standing))


def fleet(standing: Standing) -> list[dict[str, Any]]:
    """The replicas as the router sees them."""
    state = httpx.get(f"http://127.0.0.1:{standing.admin_port}/state", timeout=10).json()
    replicas: list[dict[str, Any]] = state["replicas"]
    return replicas


def verified(log: Path, say: Callable[[str], None]) -> list[str]:
    """Whether today's code decides the same from the whole log."""
    command = [sys.executable, "-m", "trioroute", "replay", str(log), "--verify"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).strip().splitlines() or ["it said nothing"]
    say(lines[-1])
    return [] if done.returncode == 0 else [f"replay --verify: {lines[-1]}"]
