"""Measurements of this process that are no events: they start at zero with it.

Each observation is a plain call of well under half a microsecond, so the hot path can afford it;
the instruments of prometheus_client take 0.7 µs and a label look-up 0.8 µs more.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Protocol

import attrs
import trio

from trioroute.observe.exemplars import Exemplars
from trioroute.observe.refusals import Refusals

FINE_NS: tuple[int, ...] = (
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
)
"""5 µs to 100 ms: what the router itself spends on a request."""

COARSE_NS: tuple[int, ...] = (
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
)
"""100 µs to 10 s: disks, replicas and a loop that is held up."""


class LogView(Protocol):
    """What the log says of itself: versions of this router's stream, and bytes on disk."""

    @property
    def position(self) -> int: ...

    @property
    def durable_position(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def head(self) -> str:
        """``SEQ:CHAIN`` after the last commit, as ``trioroute log verify --head`` takes it."""
        ...

    @property
    def closed_head(self) -> str | None:
        """The same at the end of the last closed segment, None without one."""
        ...

    @property
    def failing(self) -> str:
        """Why nothing can be written, empty while all is well or nothing is known."""
        ...


class SourceView(Protocol):
    """How a place does where replicas are found. Time 0: never. ``failing``: why, empty if not."""

    @property
    def last_success_ms(self) -> int: ...

    @property
    def replicas(self) -> int: ...

    @property
    def failing(self) -> str: ...


class TaskView(Protocol):
    """What a task beside the log did since the start. Time 0: never."""

    @property
    def ok(self) -> int: ...

    @property
    def failed(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def last_success_ms(self) -> int: ...

    @property
    def waiting(self) -> int: ...


@attrs.define(slots=True)
class Buckets:
    """A histogram: ``counts`` per bound of ``bounds_ns``, the last one for all above."""

    bounds_ns: tuple[int, ...]
    counts: list[int] = attrs.field(init=False)
    sum_ns: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds_ns) + 1)

    def observe_ns(self, value_ns: int) -> None:
        """Count one duration in nanoseconds; a negative one counts as 0, as sums never fall."""
        if value_ns < 0:
            value_ns = 0
        self.counts[bisect_left(self.bounds_ns, value_ns)] += 1
        self.sum_ns += value_ns

    def observe_s(self, value_s: float) -> None:
        """The same for a duration in seconds."""
        self.observe_ns(int(value_s * 1_000_000_000))


def _fine() -> Buckets:
    return Buckets(FINE_NS)


def _coarse() -> Buckets:
    return Buckets(COARSE_NS)


@attrs.define(slots=True)
class Timings:
    """``decision``: one ``Router.handle`` of an arrival. ``overhead``: what a request spent in the
    router itself, neither waiting for the replica nor for the client. ``log_commit``: one append
    of the journal. ``scrape``: one replica asked once. ``loop_lag``: how late the loop woke up.
    ``unlogged`` counts responses whose decision was not durable when their first byte left.
    """

    decision: Buckets = attrs.field(factory=_fine)
    overhead: Buckets = attrs.field(factory=_fine)
    log_commit: Buckets = attrs.field(factory=_coarse)
    scrape: Buckets = attrs.field(factory=_coarse)
    loop_lag: Buckets = attrs.field(factory=_coarse)
    unlogged: int = 0
    reloads: dict[str, int] = attrs.field(
        factory=lambda: dict.fromkeys(("applied", "unchanged", "rejected"), 0)
    )
    reload_failed: bool = False
    discovery: Mapping[str, SourceView] = attrs.field(factory=dict)
    upkeep: Mapping[str, TaskView] = attrs.field(factory=dict)
    exemplars: Exemplars = attrs.field(factory=Exemplars)
    refusals: Refusals = attrs.field(factory=Refusals)

    def log_committed(self, entries: int, seconds: float) -> None:
        """Fits the journal's ``on_commit``: entries of an append, seconds it took."""
        self.log_commit.observe_s(seconds)

    def reloaded(self, result: str) -> None:
        """The configuration was read again: applied, unchanged or rejected."""
        self.reloads[result] += 1
        self.reload_failed = result == "rejected"

    def response_unlogged(self) -> None:
        """A response went out before its decision was durable (``log.gate`` or a stalled log)."""
        self.unlogged += 1


async def watch_loop_lag(timings: Timings, clock: Callable[[], int], interval_ms: int) -> None:
    """Sleep ``interval_ms`` again and again, and record how much later than that the loop woke.

    ``clock`` gives nanoseconds and never steps (``time.perf_counter_ns``). Runs until cancelled.
    """
    interval_ns = interval_ms * 1_000_000
    while True:
        slept_from_ns = clock()
        await trio.sleep(interval_ms / 1000)
        timings.loop_lag.observe_ns(clock() - slept_from_ns - interval_ns)
