"""How a run is judged: percentiles, windows, and which of them count."""

import pytest

from trioroute.simulate.clock import BEGIN_MS
from trioroute.simulate.measures import Measures, mean_s, percentile_s

S = 1_000_000_000


def test_percentiles_are_values_that_occurred() -> None:
    values = [number * S for number in range(1, 101)]
    assert [percentile_s(values, share) for share in (0.5, 0.9, 0.99)] == [50, 90, 99]
    assert percentile_s([3 * S], 0.99) == 3
    assert percentile_s([], 0.5) == 0
    assert mean_s([S, 3 * S]) == 2


def dispatched(measures: Measures, replica: str, seconds: range) -> None:
    for second in seconds:
        measures.dispatched(BEGIN_MS + second * 1000, replica)


def test_the_largest_share_is_that_of_the_worst_five_minutes() -> None:
    measures = Measures()
    dispatched(measures, "a", range(0, 1200, 2))
    dispatched(measures, "b", range(1, 600, 2))
    dispatched(measures, "b", range(901, 1200, 2))
    assert measures.largest_share() == pytest.approx(1.0)
    assert measures.largest_share(900_000) == pytest.approx(0.5)


def test_a_short_run_is_one_window_and_a_thin_one_does_not_count() -> None:
    short = Measures()
    dispatched(short, "a", range(60))
    dispatched(short, "b", range(30))
    assert short.largest_share() == pytest.approx(2 / 3)
    tail = Measures()
    dispatched(tail, "a", range(600))
    dispatched(tail, "b", range(600))
    dispatched(tail, "a", range(600, 1500, 30))
    assert tail.largest_share() < 0.6


def test_imbalance_is_averaged_by_the_minute_and_over_the_run() -> None:
    measures = Measures(imbalance=[(0, 1000), (30_000, 3000), (60_000, 9000), (90_000, 3000)])
    assert measures.mean_imbalance() == 4
    assert measures.largest_imbalance() == 6
    assert Measures().largest_imbalance() == Measures().mean_imbalance() == 0


def test_only_good_requests_have_times() -> None:
    measures = Measures()
    measures.ended(0, S, 2 * S, error=False)
    measures.ended(0, S, 2 * S, error=True)
    measures.ended(0, None, 2 * S, error=True)
    assert (measures.ttft_ns, measures.e2e_ns, measures.errors) == ([S], [2 * S], 2)
