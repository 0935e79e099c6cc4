"""What is measured: the rows of the table, and the runs that fill them. BENCH.md explains each."""

from collections.abc import Callable, Mapping

import attrs

from tests.bench.arena import Standing
from tests.bench.leave import left_ms
from tests.bench.load import Load, RunFailedError
from tests.bench.memory import mb_per_1000_streams
from tests.bench.stall import FIRST_TOKEN_US, alone_and_beside_p99_ms, stall_ms
from tests.bench.sustained import most_chunks_per_s

Figures = Mapping[str, float | str]
"""By row; a text says why there is no figure."""


@attrs.frozen
class Pace:
    """How long is measured: all of a full run, or enough for a first look."""

    json_ms: int = 2500
    stream_ms: int = 3000
    first_byte_ms: int = 6000
    probe_ms: int = 1500
    stall_ms: int = 10000
    leave_wait_s: float = 8.0


QUICK = Pace(1000, 1500, 3000, 800, 3000, 2.0)


@attrs.frozen
class Row:
    """One line. ``better`` is "more" or "less"; ``digits`` behind the point."""

    name: str
    title: str
    better: str
    digits: int = 0


@attrs.frozen
class Measure:
    """One run that fills some rows. ``fresh``: in a process of its own, started for it."""

    name: str
    rows: tuple[Row, ...]
    run: Callable[[Standing, Pace], Figures]
    fresh: bool = False
    only: str | None = None


def _each(row: str, standing: Standing, cpu_s: float, count: int) -> Figures:
    """CPU µs for each of so many; nothing where there is no proxy."""
    return {row: cpu_s / count * 1e6} if standing.pid is not None else {}


def _json(size: str, conns: int, body: int) -> Measure:
    rate, cpu = f"rps-{size}-{conns}", f"cpu-{size}-{conns}"

    def run(standing: Standing, pace: Pace) -> Figures:
        load = Load(conns, "reply=1024", body, ms=pace.json_ms, length=1024, marks=1)
        outcome = standing.load(load).checked()
        if not outcome.done:
            raise RunFailedError("no response within the time")
        return {
            rate: outcome.done / outcome.seconds,
            **_each(cpu, standing, outcome.cpu_s, outcome.done),
        }

    wording = f"{size.upper().replace('K', ' KB')} JSON, {conns} connections"
    rows = (
        Row(rate, f"requests/s, {wording}", "more"),
        Row(cpu, f"CPU µs per request, {wording}", "less"),
    )
    return Measure(rate, rows, run)


def _stream(standing: Standing, pace: Pace) -> Figures:
    spec = "chunks=1000000 bytes=250 gap_us=20000 phase_us=20000"
    load = Load(256, spec, stream=True, settle=True, stagger_ms=300, ms=pace.stream_ms)
    outcome = standing.load(attrs.evolve(load, marks=1_000_000)).checked()
    if outcome.chunks < 0.97 * 256 * 50 * outcome.seconds:
        raise RunFailedError(f"only {outcome.chunks / outcome.seconds:,.0f} chunks/s of 12,800")
    return {
        **_each("cpu-chunk", standing, outcome.cpu_s, outcome.chunks),
        "transit-p99": outcome.transit.p99 / 1000,
        "gap-p99": outcome.gap.p99 / 1000,
    }


def _first_byte(standing: Standing, pace: Pace) -> Figures:
    spec = f"chunks=50 bytes=250 gap_us=20000 first_us={FIRST_TOKEN_US}"
    load = Load(64, spec, stream=True, settle=True, stagger_ms=1000, marks=50)
    outcome = standing.load(attrs.evolve(load, ms=pace.first_byte_ms)).checked()
    first = outcome.first_byte
    if not first.count:
        raise RunFailedError("no first byte within the time")
    return {
        "ttfb-p50": (first.p50 - FIRST_TOKEN_US) / 1000,
        "ttfb-p99": (first.p99 - FIRST_TOKEN_US) / 1000,
    }


def _sustained(standing: Standing, pace: Pace) -> Figures:
    return {"chunks-max": most_chunks_per_s(standing, pace.probe_ms)}


def _memory(standing: Standing, _: Pace) -> Figures:
    if standing.pid is None:
        return {}
    return {"memory": mb_per_1000_streams(standing, standing.pid)}


def _leave(standing: Standing, pace: Pace) -> Figures:
    return {"leave": left_ms(standing, pace.leave_wait_s)}


def _beside(standing: Standing, pace: Pace) -> Figures:
    alone, beside = alone_and_beside_p99_ms(standing, pace.stall_ms // 2)
    return {"alone-p99": alone, "beside-p99": beside}


def _stall(standing: Standing, pace: Pace) -> Figures:
    return {"stall": stall_ms(standing, pace.stall_ms)}


MEASURES = (
    _json("2k", 32, 2048),
    _json("2k", 256, 2048),
    _json("200k", 32, 204800),
    Measure(
        "stream",
        (
            Row("cpu-chunk", "CPU µs per chunk, 256 streams x 50/s", "less", 1),
            Row("transit-p99", "chunk transit p99 ms, 256 streams x 50/s", "less", 2),
            Row("gap-p99", "gap between chunks p99 ms (20 sent)", "less", 1),
        ),
        _stream,
    ),
    Measure(
        "sustained",
        (Row("chunks-max", "chunks/s with transit p99 < 10 ms, 256 streams", "more"),),
        _sustained,
    ),
    Measure(
        "first-byte",
        (
            Row("ttfb-p50", "added time to first byte p50 ms, 64 streams", "less", 2),
            Row("ttfb-p99", "added time to first byte p99 ms, 64 streams", "less", 2),
        ),
        _first_byte,
    ),
    Measure("memory", (Row("memory", "MB per 1000 open streams", "less", 1),), _memory, fresh=True),
    Measure("leave", (Row("leave", "upstream closed after a client left, ms", "less"),), _leave),
    Measure(
        "beside",
        (
            Row("alone-p99", "added to small requests, 100/s, p99 ms", "less", 1),
            Row("beside-p99", "the same beside 1 MB prompts at 50/s", "less", 1),
        ),
        _beside,
    ),
    Measure(
        "stall",
        (Row("stall", "event loop stall p99 ms, 1 MB prompts at 50/s", "less", 2),),
        _stall,
        only="trioroute",
    ),
)
ROWS = {row.name: row for measure in MEASURES for row in measure.rows}
