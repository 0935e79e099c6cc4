"""What a replay costs the router whose log it reads: ``python -m tests.bench.beside [TURNS]``.

One router with its defaults, an open load of 200 requests a second, and questions asked of its
log again and again, in turns with as long a time without any, and with a busy loop that reads no
log. The router has one CPU for itself; replay, the load and the engines share the other.

Prints CPU time per request and the p50 and p99 of the latency, with the ratio turn by turn to the
time alone and to the busy loop. The CPU time beside the busy loop is the one to trust: a neighbour
that is busy with anything takes caches and clock from the router, as others on the machine do, and
latency also tells what the load and the engines waited for.
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
}

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


def figures_of(
    standing: Standing, cpu: int | None, words: tuple[str, ...] | None, codes: list[int]
) -> tuple[float, float, float]:
    """Of one turn with a question, without words the busy loop, or with nothing beside it."""
    if words is None:
        return figures(standing.load(LOAD))
    with asked(standing, cpu, words) as ended:
        found = figures(standing.load(LOAD))
    codes += ended
    return found


def measure(standing: Standing, name: str, turns: int, cpu: int | None) -> None:
    """A turn is all three, each time in another order."""
    ways = {"alone": None, "busy loop": (), name: QUESTIONS[name]}
    told: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
    codes: list[int] = []
    for number in range(turns):
        order = list(ways)[number % 3 :] + list(ways)[: number % 3]
        for way in order:
            told[way].append(figures_of(standing, cpu, ways[way], codes if way == name else []))
    if any(code > 0 for code in codes):
        sys.stdout.write(f"{name}: exit codes {codes}\n")
    for place, unit in enumerate(("CPU us/request", "p50 ms", "p99 ms")):
        columns = {way: [one[place] for one in rows] for way, rows in told.items()}
        medians = "   ".join(f"{way} {median(rows):8.2f}" for way, rows in columns.items())
        ratios = "   ".join(
            f"to {way} {_ratios(columns[name], columns[way])}" for way in ("alone", "busy loop")
        )
        sys.stdout.write(f"{unit:<15} {medians}   {ratios}   ({len(codes)} answers)\n")
        sys.stdout.flush()


def _ratios(of: list[float], to: list[float]) -> str:
    """The median of the ratios turn by turn, with the least and the greatest."""
    ratios = [one / other for one, other in zip(of, to, strict=True)]
    return f"{median(ratios):5.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


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
