"""The engine model against closed forms, and jumping over steps against taking them one by one."""

import random

import attrs
import pytest

from tests.simulate.drive import MS, Driven
from trioroute.simulate.engine_model import EngineModel
from trioroute.simulate.profiles import BLOCK_TOKENS, PROFILES
from trioroute.simulate.steps import Sequence

TINY = PROFILES["tiny"]
COSTLY_CONTEXT = attrs.evolve(TINY, context_token_ns=50)


def alone(prompt: int, output: int, profile: object = TINY) -> Driven:
    driven = Driven(EngineModel(TINY if profile is TINY else COSTLY_CONTEXT))
    driven.run([(0, Sequence(prompt, output, ()))])
    return driven


def test_one_request_alone_takes_its_prompt_in_chunks_and_then_a_step_a_token() -> None:
    driven = alone(2000, 100)
    # Two steps of prefill (1 ms + 0.1 ms a sequence each, 10 us a token), then 99 of decode.
    first = 2 * 1.1 + 2000 * 0.01
    assert driven.first_ns[0] == round(first * MS)
    assert driven.done_ns[0] == round((first + 99 * 1.1) * MS)


def test_each_further_token_reads_one_more_token_of_context() -> None:
    driven = alone(1000, 50, COSTLY_CONTEXT)
    plain = alone(1000, 50)
    reads = sum(1000 + generated for generated in range(1, 50))
    assert driven.done_ns[0] - plain.done_ns[0] == reads * 50


def test_a_full_batch_steps_together() -> None:
    driven = Driven(EngineModel(TINY))
    driven.run([(0, Sequence(100, 200, ())) for _ in range(8)], in_one_batch=True)
    prefill = 1.0 + 8 * 0.1 + 800 * 0.01
    assert set(driven.first_ns.values()) == {round(prefill * MS)}
    assert set(driven.done_ns.values()) == {round((prefill + 199 * 1.8) * MS)}


def test_who_finds_the_batch_full_starts_when_the_others_end() -> None:
    driven = Driven(EngineModel(TINY))
    driven.run([(0, Sequence(100, 200, ())) for _ in range(9)], in_one_batch=True)
    ended = driven.done_ns[0]
    assert driven.first_ns[8] == ended + round(2.1 * MS)


def test_a_cache_hit_saves_the_full_blocks_of_the_shared_prefix() -> None:
    engine = EngineModel(TINY)
    blocks = (1, 2, 3)
    driven = Driven(engine)
    prompt = 3 * BLOCK_TOKENS + 100
    arrivals = [(at, Sequence(prompt, 1, blocks)) for at in (0, 1000 * MS)]
    driven.run(arrivals)
    assert driven.first_ns[1] - 1000 * MS == round(1.1 * MS) + 100 * TINY.prefill_token_ns
    assert engine.cached_tokens == 3 * BLOCK_TOKENS
    assert engine.queried_tokens == 2 * prompt


def test_the_last_token_of_a_prompt_is_computed_even_when_all_is_cached() -> None:
    engine = EngineModel(TINY)
    arrivals = [(at, Sequence(2 * BLOCK_TOKENS, 1, (1, 2))) for at in (0, 1000 * MS)]
    Driven(engine).run(arrivals)
    assert engine.cached_tokens == BLOCK_TOKENS


def test_decoding_goes_on_beside_a_long_prompt_and_slows_down() -> None:
    driven = Driven(EngineModel(TINY))
    driven.run([(0, Sequence(10, 300, ())), (50 * MS, Sequence(10_240, 1, ()))])
    undisturbed = alone(10, 300).done_ns[0]
    slowed = driven.done_ns[0] - undisturbed
    # The decoding sequence takes a token of every step's 1024: eleven chunks instead of ten.
    assert slowed == 10_240 * TINY.prefill_token_ns + 11 * TINY.sequence_ns


def test_an_arrival_waits_for_the_step_under_way_only() -> None:
    driven = Driven(EngineModel(TINY))
    driven.run([(0, Sequence(10, 1000, ())), (500 * MS, Sequence(10, 1, ()))])
    assert driven.first_ns[1] - 500 * MS <= (1.1 + 1.3) * MS


def test_who_needs_more_blocks_than_are_free_waits_its_turn() -> None:
    engine = EngineModel(TINY)
    big = 40 * BLOCK_TOKENS
    driven = Driven(engine)
    driven.run([(0, Sequence(big, 50, ())), (0, Sequence(big, 1, ())), (0, Sequence(10, 1, ()))])
    assert driven.first_ns[1] > driven.done_ns[0]
    assert driven.first_ns[2] > driven.done_ns[0]  # nobody overtakes
    assert engine.preemptions == 0


def test_when_blocks_run_out_the_youngest_is_preempted_and_computed_again() -> None:
    engine = EngineModel(TINY)
    prompt = 31 * BLOCK_TOKENS
    driven = Driven(engine)
    late = (500 * MS, Sequence(prompt, 700, ()))
    driven.run([(0, Sequence(prompt, 700, ())), (0, Sequence(prompt, 700, ())), late])
    assert engine.preemptions == 2
    assert driven.done_ns[0] < driven.done_ns[1] < driven.done_ns[2]
    assert driven.first_ns[2] > driven.done_ns[0]  # it was waiting when the other came back
    assert engine.generated_at(driven.done_ns[2]) == 2100
    assert engine.cache.unused == engine.cache.capacity


def test_a_request_that_can_never_fit_is_known_before() -> None:
    engine = EngineModel(TINY)
    assert engine.fits(63 * BLOCK_TOKENS, BLOCK_TOKENS - 1)
    assert not engine.fits(63 * BLOCK_TOKENS, BLOCK_TOKENS)


def test_a_frozen_engine_goes_on_where_it_stood() -> None:
    engine = EngineModel(TINY)
    sequence = Sequence(10, 1000, ())
    engine.submit(sequence, 0)
    engine.complete(engine.next_ns or 0)
    end_ns = engine.next_ns
    engine.freeze(30 * MS)
    assert engine.next_ns is None
    assert engine.generated_at(10_000 * MS) == engine.generated_at(30 * MS)
    engine.thaw(130 * MS)
    assert end_ns is not None
    assert engine.next_ns == end_ns + 100 * MS


def test_a_slow_engine_takes_a_multiple_of_every_step() -> None:
    engine = EngineModel(TINY)
    engine.slow_down(3000, 0)
    driven = Driven(engine)
    driven.run([(0, Sequence(2000, 100, ()))])
    assert driven.done_ns[0] == 3 * alone(2000, 100).done_ns[0]


def test_an_aborted_sequence_gives_its_blocks_back() -> None:
    engine = EngineModel(TINY)
    here, waiting = Sequence(100, 1000, ()), Sequence(62 * BLOCK_TOKENS + 600, 1, ())
    engine.submit(here, 0)
    engine.submit(waiting, 0)
    engine.complete(engine.next_ns or 0)
    engine.abort(waiting, 20 * MS)
    engine.abort(here, 20 * MS)
    assert engine.complete(engine.next_ns or 0).done == []
    assert engine.next_ns is None
    assert engine.cache.in_use == 0


def some_traffic(seed: int) -> list[tuple[int, Sequence]]:
    rng = random.Random(seed)
    at_ns = 0
    arrivals = []
    for _ in range(60):
        at_ns += rng.randrange(30 * MS)
        first = rng.randrange(3) * 100
        blocks = tuple(range(first, first + rng.randrange(13)))
        prompt, output = rng.randrange(1, 6000), rng.randrange(1, 1500)
        arrivals.append((at_ns, Sequence(prompt, output, blocks)))
    return arrivals


@pytest.mark.parametrize("seed", range(12))
def test_jumping_over_steps_is_the_same_as_taking_them_one_by_one(seed: int) -> None:
    jumping, stepping = (Driven(EngineModel(COSTLY_CONTEXT)) for _ in range(2))
    jumping.run(some_traffic(seed))
    stepping.run(some_traffic(seed), one_step_at_a_time=True)
    assert jumping.first_ns == stepping.first_ns
    assert jumping.done_ns == stepping.done_ns
    assert jumping.engine.preemptions == stepping.engine.preemptions
    assert jumping.engine.cached_tokens == stepping.engine.cached_tokens
    assert jumping.runs * 5 < stepping.runs


@pytest.mark.parametrize("seed", range(12))
def test_every_token_has_its_block_and_every_block_is_accounted_for(seed: int) -> None:
    engine = EngineModel(TINY)
    cache = engine.cache

    def check(now_ns: int) -> None:
        running = list(engine._batch.values())
        private = sum(one.private for one in running)
        assert cache.private == private
        assert cache.in_use + cache.available == cache.capacity
        assert cache.in_use - private == len({block for one in running for block in one.held})
        for one in running:
            since = one.decoding_since
            tokens = one.target if since is None else one.target + engine._decoded - since
            assert (len(one.held) + one.private) * BLOCK_TOKENS >= tokens

    driven = Driven(engine)
    driven.run(some_traffic(seed), after_run=check)
    assert len(driven.done_ns) == 60
    assert cache.in_use == 0
    assert engine.generated_at(1 << 50) == sum(one.output_tokens for _, one in some_traffic(seed))
