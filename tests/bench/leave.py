"""How long an upstream goes on computing for a client that left while it was silent."""

from collections.abc import Mapping

from tests.bench.arena import Standing
from tests.bench.load import Load, RunFailedError, until

CLIENTS = 20
LEAVE_MS = 400


def left_ms(standing: Standing, wait_s: float) -> float:
    """Median time from a client's close to the upstream's. Raises ``RunFailedError`` with
    how many were not closed within ``wait_s``."""
    upstream, before = standing.upstream, set(standing.upstream.aborts().values())
    spec = "chunks=10 first_us=600000000"
    ms = LEAVE_MS + 400
    load = Load(CLIENTS, spec, stream=True, once=True, warmup_ms=0, ms=ms, leave_ms=LEAVE_MS)
    outcome = standing.load(load)
    if len(outcome.left) < CLIENTS:
        raise RunFailedError(f"{CLIENTS - len(outcome.left)} of {CLIENTS} could not ask")

    def closed() -> Mapping[int, int]:
        return {key: at for key, at in upstream.aborts().items() if at not in before}

    until(lambda: len(closed()) >= CLIENTS, wait_s)
    return median_ms(outcome.left, closed(), wait_s)


def median_ms(left: Mapping[int, int], closed: Mapping[int, int], wait_s: float) -> float:
    """Of the times between both, by id. Raises ``RunFailedError`` if some never closed."""
    missing = [key for key in left if key not in closed]
    if missing:
        raise RunFailedError(f"> {wait_s:g} s for {len(missing)} of {len(left)}")
    spent = sorted(closed[key] - at for key, at in left.items())
    return spent[len(spent) // 2] / 1e6
