"""Time as the router tells it: wall time at the start plus what has elapsed since.

A stepped wall clock cannot disturb a run (no cooldown freezes, no pin dies at once), and the log
still has dates that people can read. Integer milliseconds.
"""

import time
from collections.abc import Callable

NS_PER_MS = 1_000_000
HELD_UP_MS = 500
"""What comes so late past its time was held up with the router itself (paused, starved): limits of
time do not run meanwhile, for nobody had a chance to be in time."""


def running_clock() -> Callable[[], int]:
    """A function that returns the milliseconds since 1970, never stepping back."""
    offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms() -> int:
        return (time.monotonic_ns() + offset_ns) // NS_PER_MS

    return now_ms
