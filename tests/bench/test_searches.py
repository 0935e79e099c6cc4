"""What is computed from runs: the highest rate, the quantile of a histogram, times of closing."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.bench.leave import median_ms
from tests.bench.load import RunFailedError
from tests.bench.places import filesystem_of
from tests.bench.soak import Sample, grown
from tests.bench.stall import parse_buckets, quantile
from tests.bench.sustained import LADDER, highest

INF = float("inf")


@pytest.mark.parametrize("limit", [0, 1000, 3999, 4000, 26000, 49999, 50000, 10**6])
def test_the_highest_step_that_holds_is_found(limit: int) -> None:
    expected = max((step for step in LADDER if step <= limit), default=None)
    assert highest(LADDER, lambda step: step <= limit) == expected


def test_buckets_are_read_from_the_page_and_from_no_other_series() -> None:
    page = (
        'trioroute_loop_lag_seconds_bucket{le="0.001"} 3.0\n'
        'trioroute_loop_lag_seconds_bucket{le="+Inf"} 4.0\n'
        'trioroute_decision_seconds_bucket{le="0.001"} 9.0\n'
    )
    assert parse_buckets(page) == {0.001: 3.0, INF: 4.0}


def test_a_quantile_lies_within_its_bucket() -> None:
    cumulative = {0.001: 50.0, 0.005: 90.0, 0.01: 100.0, INF: 100.0}
    assert quantile(cumulative, 0.5) == pytest.approx(0.001)
    assert quantile(cumulative, 0.7) == pytest.approx(0.003)
    assert quantile(cumulative, 0.99) == pytest.approx(0.0095)
    assert quantile({0.001: 0.0, INF: 5.0}, 0.99) == 0.001
    with pytest.raises(RunFailedError, match="was recorded"):
        quantile({INF: 0.0}, 0.99)


def test_a_client_that_left_is_matched_with_its_own_response() -> None:
    left = {0: 1_000_000, 1: 2_000_000, 2: 3_000_000}
    closed = {2: 3_000_000 + 9_000_000, 0: 1_000_000 + 1_000_000, 1: 2_000_000 + 4_000_000}
    assert median_ms(left, closed, 8) == 4
    with pytest.raises(RunFailedError, match=r"> 8 s for 1 of 3"):
        median_ms(left, {0: 1, 1: 2}, 8)


def test_the_filesystem_is_that_of_the_deepest_mount() -> None:
    mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/disk xfs rw 0 0\n"
    kinds = [filesystem_of(Path(path), mounts) for path in ("/home", "/tmp/x", "/tmp/disk/log")]
    assert kinds == ["ext4", "tmpfs", "xfs"]
    assert filesystem_of(Path("/tmpother"), mounts) == "ext4"


CALM = Sample(1.0, 100.0, 60, 4, 0, 5000, 500, 20, 12.0)


def soaked(**step: float) -> list[Sample]:
    """Samples that grow by so much each time."""
    return [
        attrs.evolve(CALM, **{key: getattr(CALM, key) + value * at for key, value in step.items()})
        for at in range(10)
    ]


@pytest.mark.parametrize(
    "step, said",
    [
        ({"memory_mb": 5}, "memory in MB: 110 -> 140"),
        ({"open_files": 3}, "open files: 66 -> 84"),
        ({"threads": 1}, "threads: 6 -> 12"),
        ({"first_byte_p99_ms": 10}, "time to first byte p99 in ms: 32 -> 92"),
    ],
)
def test_what_grows_from_sample_to_sample_is_told(step: dict[str, float], said: str) -> None:
    assert grown(soaked(**step)) == [said]


def test_noise_and_the_first_sample_are_no_growth() -> None:
    noisy: list[dict[str, Any]] = [{"memory_mb": 104.0}, {"open_files": 66}, {}, {"threads": 5}]
    warm = attrs.evolve(CALM, memory_mb=60.0, open_files=9)
    assert grown([warm, *(attrs.evolve(CALM, **changes) for changes in noisy)]) == []


def test_a_request_that_stays_in_flight_and_an_interval_without_answers_are_told() -> None:
    stuck = [CALM, attrs.evolve(CALM, in_flight=2), CALM, attrs.evolve(CALM, done=0)]
    assert grown(stuck) == [
        "in flight: 2 when nobody asked any more",
        "answers: none in some interval",
    ]
