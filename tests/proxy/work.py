"""Whether the work on an input grows with its size, or faster: told by CPU time, as a ratio."""

import time
from collections.abc import Callable

RUNS = 5
FLOOR_S = 0.001
"""Of two times shorter than this the ratio says nothing."""


def cpu_s(run: Callable[[], object]) -> float:
    """The least of RUNS runs."""
    times: list[float] = []
    for _ in range(RUNS):
        before = time.thread_time()
        run()
        times.append(time.thread_time() - before)
    return min(times)


def assert_linear(run: Callable[[int], object], size: int) -> None:
    """``run`` at four times ``size`` takes four times as long, or less; quadratic is sixteen."""
    small = cpu_s(lambda: run(size))
    large = cpu_s(lambda: run(4 * size))
    assert large < 9 * max(small, FLOOR_S), f"{small:.5f} s at {size}, {large:.5f} s at {4 * size}"
