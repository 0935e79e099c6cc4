"""What a replay costs the router whose log it reads: ``python -m tests.bench.beside [TURNS]``.

One router with its defaults, an open load of 200 requests a second, and questions asked of its
log again and again, in turns with as long a time without any. The router has one CPU for itself;
replay, the load and the engines share the other. Prints CPU time per request and the p50 and p99 of
the latency of both, and their ratio turn by turn. Compare with the busy loop, which reads no log:
it takes as much of the CPU that the load and the engines answer on.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from tests.bench.arena import Arena, Standing
from tests.bench.binaries import binary
from tests.bench.load import Generator, Load, Outcome
from tests.bench.places import cache_dir, cpus
from tests.bench.processes import running
from tests.bench.targets import TARGETS
from tests.bench.upstream import upstream

RATE, CONNS, TURN_MS = 200, 64, 2500
LOAD = Load(CONNS, "reply=1024", rate=RATE, warmup_ms=500, ms=TURN_MS)
FILL = Load(CONNS, "reply=1024", warmup_ms=0, ms=20_000)
"""Before the first turn, so that there is a log to read."""

QUESTIONS = {
    "--last": ("--last", "200"),
    "--incident": ("--incident", "-1h"),
    "--replica": ("--replica", "replica1"),
    "--watch": ("--watch",),
    "busy loop": (),
}
"""The last one asks nothing: what any program costs that is busy on the other CPU."""

BUSY = (sys.executable, "-c", "import os\nos.nice(10)\nwhile True: pass")


@contextmanager
def asked(standing: Standing, cpu: int | None, words: tuple[str, ...]) -> Iterator[list[int]]:
    """The question, again as soon as it is answered. Gives the exit codes."""
    log = str(standing.directory / "log")
    command = (sys.executable, "-m", "trioroute", "replay", log, *words) if words else BUSY
    over, codes = threading.Event(), list[int]()

    def again() -> None:
        while not over.is_set():
            with running(command, standing.directory / "replay.out", cpu) as process:
                while process.poll() is None and not over.is_set():
                    time.sleep(0.02)
                codes.append(process.poll() or 0)

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield codes
    finally:
        over.set()
        thread.join()


def figures(outcome: Outcome) -> tuple[float, float, float]:
    """CPU in microseconds a request, p50 and p99 in milliseconds."""
    latency = outcome.checked().latency
    return outcome.cpu_s * 1e6 / outcome.done, latency.p50 / 1000, latency.p99 / 1000


def measure(standing: Standing, name: str, turns: int, cpu: int | None) -> None:
    alone, beside = [], []
    answers = 0
    for number in range(turns):
        for asking in (True, False) if number % 2 else (False, True):
            if asking:
                with asked(standing, cpu, QUESTIONS[name]) as codes:
                    beside.append(figures(standing.load(LOAD)))
                answers += len(codes)
                if any(code > 0 for code in codes):
                    sys.stdout.write(f"{name}: exit codes {codes}\n")
            else:
                alone.append(figures(standing.load(LOAD)))
    for place, unit in enumerate(("CPU us/request", "p50 ms", "p99 ms")):
        ratios = [
            with_[place] / without[place] for with_, without in zip(beside, alone, strict=True)
        ]
        sys.stdout.write(
            f"{name:<11} {unit:<15} alone {median(one[place] for one in alone):8.2f}   beside "
            f"{median(one[place] for one in beside):8.2f}   ratio {median(ratios):5.3f}   "
            f"({min(ratios):.3f} to {max(ratios):.3f}; {answers} answers)\n"
        )
        sys.stdout.flush()


def main(turns: int) -> None:
    places = cpus()
    generator = Generator(binary("load"), places.load)
    with (
        tempfile.TemporaryDirectory(dir=cache_dir(), prefix="run-") as temporary,
        upstream(binary("upstream"), places.load) as engines,
    ):
        arena = Arena(Path(temporary), places, generator, engines)
        with arena.standing(TARGETS["trioroute"]) as standing:
            standing.load(FILL)
            for name in QUESTIONS:
                standing.calm_down()
                measure(standing, name, turns, places.load)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
