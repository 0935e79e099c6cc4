"""Continuous batching, in virtual time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from trioroute.engine.batch import Batch, QueueFullError, Sequence
from trioroute.engine.settings import EngineSettings
from trioroute.engine.tokens import answer_text


def batch_of(**settings: Any) -> Batch:
    plain: dict[str, Any] = {"prefill_tokens_per_s": 1000.0, "decode_tokens_per_s": 10.0}
    return Batch(EngineSettings(**(plain | settings)))


def prompt_of(tokens: int, letter: str = "p", answer: int = 1) -> Sequence:
    text = (letter * 4 * tokens).encode()
    return Sequence(text, answer, answer_text(0, text, answer))


def run(batch: Batch, now_s: float = 0.0, steps: int = 100_000) -> float:
    """Steps until nothing is left or `steps` are done; the time it is then."""
    for _ in range(steps):
        step = batch.plan(now_s)
        if step is None:
            break
        now_s += step.duration_s
        batch.complete(step, now_s)
    return now_s


def test_the_first_token_comes_after_prompt_tokens_over_prefill_speed() -> None:
    batch, one = batch_of(), prompt_of(500)
    batch.submit([one], 0.0)
    run(batch)
    assert one.first_token_s == pytest.approx(0.5)


def test_each_further_token_takes_one_decode_interval() -> None:
    batch, one = batch_of(), prompt_of(500, answer=6)
    batch.submit([one], 0.0)
    assert run(batch) == pytest.approx(0.5 + 5 * 0.1)
    assert batch.counters.generation_tokens == 6


def test_decode_steps_are_shared_by_the_whole_batch() -> None:
    alone, eight = batch_of(), batch_of()
    alone.submit([prompt_of(10, answer=11)], 0.0)
    eight.submit([prompt_of(10, letter, answer=11) for letter in "abcdefgh"], 0.0)
    assert run(alone) == pytest.approx(0.01 + 10 * 0.1)
    assert run(eight) == pytest.approx(0.08 + 10 * 0.1)


def test_what_exceeds_max_running_waits_and_is_served_in_order() -> None:
    batch = batch_of(max_running=2)
    first, second, third, fourth = (prompt_of(10, letter, answer=3) for letter in "abcd")
    batch.submit([first, second, third, fourth], 0.0)
    batch.plan(0.0)
    assert batch.running == [first, second]
    assert list(batch.waiting) == [third, fourth]
    run(batch)
    assert third.admitted_s is not None
    assert first.first_token_s is not None
    assert third.admitted_s > first.first_token_s


def test_a_long_prompt_does_not_stop_the_decoding_of_others() -> None:
    batch = batch_of()
    talking, long = prompt_of(10, "t", answer=100), prompt_of(10_000, "l")
    batch.submit([talking], 0.0)
    now_s = run(batch, steps=1)
    batch.submit([long], now_s)
    run(batch, now_s, steps=4)
    assert long.first_token_s is None
    assert talking.generated == 5


def test_a_repeated_prompt_is_prefilled_from_the_cache() -> None:
    batch = batch_of()
    first, second = prompt_of(800), prompt_of(800)
    batch.submit([first], 0.0)
    now_s = run(batch)
    batch.submit([second], now_s)
    assert run(batch, now_s) - now_s == pytest.approx(0.001)
    assert (first.cached_tokens, second.cached_tokens) == (0, 799)
    assert (batch.counters.cache_queries, batch.counters.cache_hits) == (1600, 799)


def test_a_prompt_is_cached_as_soon_as_it_is_computed() -> None:
    batch = batch_of()
    first, second = prompt_of(800, answer=100), prompt_of(800)
    batch.submit([first], 0.0)
    now_s = run(batch, steps=2)
    batch.submit([second], now_s)
    run(batch, now_s, steps=1)
    assert not first.done
    assert second.cached_tokens == 799


def test_a_second_turn_finds_prompt_and_answer_of_the_first() -> None:
    batch = batch_of()
    first = prompt_of(160, answer=160)
    batch.submit([first], 0.0)
    now_s = run(batch)
    second = Sequence(first.prompt + first.words.encode() + b"and now?", 1, " the")
    batch.submit([second], now_s)
    run(batch, now_s)
    assert second.cached_tokens == 320


def test_a_prompt_that_does_not_fit_the_kv_memory_waits_and_nobody_overtakes_it() -> None:
    batch = batch_of(kv_tokens=320)
    first, large, small = prompt_of(200, "a", 3), prompt_of(200, "b"), prompt_of(20, "c")
    batch.submit([first, large, small], 0.0)
    batch.plan(0.0)
    assert batch.running == [first]
    assert list(batch.waiting) == [large, small]
    assert batch.kv_usage == pytest.approx(13 / 20)
    run(batch)
    assert large.done
    assert small.done


def test_a_full_kv_memory_preempts_the_youngest_which_ends_complete_all_the_same() -> None:
    batch = batch_of(kv_tokens=320)
    first, second = prompt_of(100, "a", answer=150), prompt_of(100, "b", answer=150)
    batch.submit([first, second], 0.0)
    run(batch)
    assert batch.counters.preemptions >= 1
    assert (first.preempted, second.preempted) == (0, batch.counters.preemptions)
    assert (first.generated, second.generated) == (150, 150)
    assert batch.counters.prompt_tokens == 200


def test_a_preempted_sequence_comes_back_before_those_that_never_ran() -> None:
    batch = batch_of(kv_tokens=320, max_running=2)
    first, second = prompt_of(100, "a", answer=150), prompt_of(100, "b", answer=150)
    third = prompt_of(10, "c")
    batch.submit([first, second, third], 0.0)
    now_s = 0.0
    while not batch.counters.preemptions:
        now_s = run(batch, now_s, steps=1)
        batch.plan(now_s)
    assert list(batch.waiting) == [second, third]


def test_a_full_queue_refuses_whole_requests_and_counts_them() -> None:
    batch = batch_of(max_running=1, max_queued=3)
    batch.submit([prompt_of(1), prompt_of(1)], 0.0)
    with pytest.raises(QueueFullError):
        batch.submit([prompt_of(1), prompt_of(1)], 0.0)
    assert len(batch.waiting) == 2
    assert batch.counters.rejections == 1
    batch.submit([prompt_of(1)], 0.0)
    assert len(batch.waiting) == 3


def test_an_aborted_sequence_frees_its_slot_during_a_step() -> None:
    batch = batch_of(max_running=1)
    first, second = prompt_of(10, "a", answer=50), prompt_of(10, "b")
    batch.submit([first, second], 0.0)
    step = batch.plan(0.0)
    assert step is not None
    batch.abort(first)
    assert batch.complete(step, 0.01) == []
    batch.plan(0.01)
    assert batch.running == [second]
    batch.abort(second)
    batch.abort(second)
    assert batch.plan(0.02) is None
    assert batch.kv_usage == 0


sizes = st.tuples(st.integers(1, 60), st.integers(0, 60), st.sampled_from("ab"), st.booleans())


@given(st.lists(sizes, max_size=12), st.integers(1, 4), st.integers(0, 200))
@hypothesis_settings(max_examples=60, deadline=None)
def test_everything_ends_complete_and_within_the_limits(
    asked: list[tuple[int, int, str, bool]], max_running: int, cache_tokens: int
) -> None:
    batch = batch_of(max_running=max_running, kv_tokens=128, cache_tokens=cache_tokens)
    kept = []
    now_s = 0.0
    for tokens, answer, letter, abort in asked:
        sequence = prompt_of(tokens, letter, answer)
        batch.submit([sequence], now_s)
        now_s = run(batch, now_s, steps=2)
        if abort:
            batch.abort(sequence)
        else:
            kept.append(sequence)
        batch.plan(now_s)
        assert len(batch.running) <= max_running
        assert batch.kv_blocks_used <= batch.kv_blocks
    run(batch, now_s)
    assert all(one.done and one.generated == one.max_tokens for one in kept)
    assert not batch.running
    assert not batch.waiting
    assert len(batch.cache) <= cache_tokens // 16
