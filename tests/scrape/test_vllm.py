"""vLLM's names as integers; what is not certain is unknown, never zero."""

import random

import pytest

from tests.scrape.servers import CAPTURES, UNDER_LOAD
from trioroute.scrape.page import PageReading
from trioroute.scrape.vllm import read

OK = b"vllm:num_requests_running 2\nvllm:num_requests_waiting 1\n"


def test_a_real_page_under_load() -> None:
    assert read(UNDER_LOAD) == PageReading(
        running=8, waiting=12, kv_m=1, tokens=7706, asleep=False, cache_tokens=1_048_576
    )


def test_a_real_page_of_an_idle_engine_is_zero_not_unknown() -> None:
    page = (CAPTURES / "vllm-idle-fresh-excerpt.txt").read_bytes()
    assert read(page) == PageReading(running=0, waiting=0, kv_m=0, tokens=0, cache_tokens=1_048_576)


def test_a_real_page_with_a_full_cache() -> None:
    page = (CAPTURES / "vllm-small-cache-excerpt.txt").read_bytes()
    assert read(page) == PageReading(running=8, waiting=4, kv_m=421, tokens=281, cache_tokens=2560)


def test_order_of_lines_does_not_matter() -> None:
    lines = UNDER_LOAD.splitlines(keepends=True)
    random.Random(7).shuffle(lines)
    assert read(b"".join(lines)) == read(UNDER_LOAD)


def test_engines_and_models_are_summed_and_the_fullest_cache_counts() -> None:
    page = b"""\
vllm:num_requests_running{engine="0",model_name="a"} 3
vllm:num_requests_running{engine="1",model_name="a"} 4
vllm:num_requests_running{engine="1",model_name="b"} 5
vllm:num_requests_waiting{engine="0",model_name="a"} 0
vllm:num_requests_waiting{engine="1",model_name="a"} 40
vllm:num_requests_waiting{engine="1",model_name="b"} 1
vllm:kv_cache_usage_perc{engine="0"} 0.1
vllm:kv_cache_usage_perc{engine="1"} 0.9
vllm:generation_tokens_total{engine="0"} 10
vllm:generation_tokens_total{engine="1"} 1.5e1
"""
    assert read(page) == PageReading(running=12, waiting=41, kv_m=900, tokens=25)


@pytest.mark.parametrize("bad", ["NaN", "+Inf", "-Inf", "-1", "1e300", "0x10", "", "1_000"])
def test_one_engine_unknown_makes_that_metric_unknown_and_no_other(bad: str) -> None:
    page = (
        'vllm:num_requests_running{engine="0"} 1\nvllm:num_requests_running{engine="1"} 2\n'
        'vllm:num_requests_waiting{engine="0"} 5\n'
        f'vllm:num_requests_waiting{{engine="1"}} {bad}\n'
        f"vllm:kv_cache_usage_perc {bad}\nvllm:generation_tokens_total {bad}\n"
    )
    reading = read(page.encode())
    assert reading == PageReading(running=3, waiting=None, kv_m=None, tokens=None)
    assert not reading.has_load


def test_an_engine_missing_from_one_of_the_two_makes_that_one_unknown() -> None:
    page = b"""\
vllm:num_requests_running{engine="0"} 1
vllm:num_requests_running{engine="1"} 2
vllm:num_requests_waiting{engine="0"} 0
"""
    assert read(page) == PageReading(running=3, waiting=None)
    swapped = (
        page.replace(b"running", b"w").replace(b"waiting", b"running").replace(b"_w{", b"_waiting{")
    )
    assert read(swapped) == PageReading(running=None, waiting=3)


def test_old_names_are_read_and_new_ones_win() -> None:
    old = b"vllm:gpu_cache_usage_perc 0.25\nvllm:generation_tokens 7\n"
    assert read(OK + old) == PageReading(running=2, waiting=1, kv_m=250, tokens=7)
    both = old + b"vllm:kv_cache_usage_perc 0.5\nvllm:generation_tokens_total 8\n"
    assert read(OK + both) == PageReading(running=2, waiting=1, kv_m=500, tokens=8)


@pytest.mark.parametrize(
    "page", [b"", b"\n", b"sglang:num_running_reqs 3\n", UNDER_LOAD.replace(b"vllm:", b"v1:")]
)
def test_text_without_the_names_is_all_unknown(page: bytes) -> None:
    reading = read(page)
    assert reading == PageReading()
    assert not reading.has_load


def test_half_of_the_names_leave_the_other_half_unknown() -> None:
    half = read(b"vllm:num_requests_running 4\n")
    assert half == PageReading(running=4, waiting=None)
    assert not half.has_load
    assert read(OK) == PageReading(running=2, waiting=1)
    assert read(OK).has_load


def test_integers_come_out_whatever_went_in() -> None:
    page = b"vllm:num_requests_running 1e3\nvllm:num_requests_waiting 0.2\n"
    reading = read(page)
    assert (reading.running, reading.waiting) == (1000, 1)  # a fraction of a queue is a queue
    assert type(reading.running) is int
    assert type(reading.waiting) is int


def test_a_sum_that_would_not_fit_the_log_is_unknown() -> None:
    page = "".join(f'vllm:generation_tokens_total{{engine="{n}"}} 9e15\n' for n in range(2000))
    assert read(page.encode()).tokens is None


def test_a_share_over_one_is_unknown() -> None:
    assert read(b"vllm:kv_cache_usage_perc 45.3\n").kv_m is None


@pytest.mark.parametrize(
    ("states", "asleep"),
    [
        ({"awake": "1.0", "weights_offloaded": "0.0", "discard_all": "0.0"}, False),
        ({"awake": "0.0", "weights_offloaded": "1.0", "discard_all": "0.0"}, True),
        ({"awake": "0.0", "weights_offloaded": "0.0", "discard_all": "1.0"}, True),
        ({"awake": "0.0", "weights_offloaded": "0.0", "discard_all": "0.0"}, False),
        ({"awake": "NaN", "weights_offloaded": "NaN"}, False),
    ],
)
def test_a_sleep_level_on_any_engine_is_asleep(states: dict[str, str], asleep: bool) -> None:
    page = 'vllm:engine_sleep_state{engine="0",sleep_state="awake"} 1.0\n' + "".join(
        f'vllm:engine_sleep_state{{engine="1",sleep_state="{state}"}} {value}\n'
        for state, value in states.items()
    )
    assert read(page.encode()).asleep is asleep


def test_a_series_written_twice_counts_once_in_either_order() -> None:
    one, two = b'vllm:generation_tokens{e="0"} 1\n', b'vllm:generation_tokens{e="0"} 2\n'
    assert read(one + two).tokens == read(two + one).tokens == 2


def cache(*labels: str) -> bytes:
    return OK + "".join(f"vllm:cache_config_info{{{each}}} 1.0\n" for each in labels).encode()


@pytest.mark.parametrize(
    "labels, tokens",
    [
        (('kv_cache_size_tokens="2560",num_gpu_blocks="1",block_size="16"',), 2560),
        (('num_gpu_blocks="100",block_size="16"',), 1600),
        (('kv_cache_size_tokens="None",num_gpu_blocks="100",block_size="16"',), 1600),
        (('engine="0",kv_cache_size_tokens="8"', 'engine="1",kv_cache_size_tokens="9"'), 17),
        (('engine="0",kv_cache_size_tokens="8"', 'engine="1"'), None),
        (('num_gpu_blocks="None",block_size="16"',), None),
        (('num_gpu_blocks="0",block_size="16"',), None),
        ((f'kv_cache_size_tokens="{"9" * 30}"',), None),
        ((), None),
    ],
)
def test_the_size_of_the_cache(labels: tuple[str, ...], tokens: int | None) -> None:
    assert read(cache(*labels)).cache_tokens == tokens
