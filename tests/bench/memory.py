"""Memory per open stream: what a fresh process grows by when 1000 streams stand open."""

from tests.bench import proc
from tests.bench.arena import Standing
from tests.bench.load import Load, RunFailedError

STREAMS = 1000
WAIT_MS = 20_000


def mb_per_1000_streams(standing: Standing, pid: int) -> float:
    """Megabytes (10^6). Raises ``RunFailedError`` if not all streams come to stand open."""
    standing.load(Load(8, "reply=1024", ms=300, length=1024, marks=1)).checked()
    before, grown = proc.memory_bytes(pid), list[int]()
    spec = "chunks=1000000 bytes=250 gap_us=1000000 first_us=20000"
    load = Load(STREAMS, spec, stream=True, once=True, stagger_ms=1000, warmup_ms=0, ms=WAIT_MS)
    outcome = standing.generator.run(
        standing.port, load, all_open=lambda: grown.append(proc.memory_bytes(pid) - before)
    )
    if not grown:
        opened = outcome.first_byte.count
        raise RunFailedError(f"{opened} of {STREAMS} streams opened, {outcome.wrong} failed")
    return max(grown[0], 0) / 1e6 / STREAMS * 1000
