"""Buckets count in nanoseconds, and the loop's lag is seen."""

import time

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trioroute.observe import Timings, watch_loop_lag
from trioroute.observe.timings import COARSE_NS, FINE_NS, Buckets


def test_a_bound_belongs_to_its_own_bucket_and_the_last_one_takes_the_rest() -> None:
    buckets = Buckets((10, 20))
    for value_ns in (0, 10, 11, 20, 21, 10_000):
        buckets.observe_ns(value_ns)
    assert buckets.counts == [2, 2, 2]
    assert buckets.sum_ns == 10_062


def test_seconds_become_nanoseconds() -> None:
    buckets = Buckets((1_000_000, 3_000_000))
    buckets.observe_s(0.002)
    assert buckets.counts == [0, 1, 0]
    assert buckets.sum_ns == 2_000_000


def test_a_sum_never_falls() -> None:
    buckets = Buckets((10,))
    buckets.observe_ns(-5)
    assert (buckets.counts, buckets.sum_ns) == ([1, 0], 0)


def test_bounds_rise() -> None:
    for bounds in (FINE_NS, COARSE_NS):
        assert list(bounds) == sorted(set(bounds))


def test_timings_do_not_share_their_buckets() -> None:
    timings, other = Timings(), Timings()
    timings.decision.observe_ns(1)
    assert sum(timings.overhead.counts) == sum(other.decision.counts) == 0


async def test_a_loop_that_was_held_up_shows_as_lag() -> None:
    timings = Timings()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_loop_lag, timings, time.perf_counter_ns, 20)
        await wait_all_tasks_blocked()
        time.sleep(0.1)  # noqa: ASYNC251 - holding up the loop is what is tested
        for _ in range(3):
            await trio.sleep(0.03)
        nursery.cancel_scope.cancel()
    assert timings.loop_lag.sum_ns >= 50_000_000


def test_the_interval_itself_is_no_lag() -> None:
    """In virtual time a loop is never late."""
    timings = Timings()

    async def main() -> None:
        with trio.move_on_after(1):
            await watch_loop_lag(timings, lambda: round(trio.current_time() * 1e9), 100)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert sum(timings.loop_lag.counts) in (9, 10)
    assert timings.loop_lag.sum_ns < 1_000
