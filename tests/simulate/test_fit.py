"""An engine model is fitted to times, and says how far it is off."""

import random

import attrs
import pytest

from trioroute.simulate.fit import FIT_REQUESTS_MIN, drive, fit
from trioroute.simulate.profiles import PROFILES, EngineProfile
from trioroute.simulate.recorded import (
    WHOLE_BYTES,
    Recorded,
    answer_lengths,
    one_after_another,
    one_by_one,
    supposed,
)


def served(
    engine: EngineProfile,
    count: int = 300,
    per_s: float = 3,
    slow_m: dict[str, int] | None = None,
) -> list[Recorded]:
    """Requests on two replicas, with the times that ``engine`` gives them."""
    dice = random.Random(5)
    at_ms, seen = 0.0, []
    for number in range(count):
        at_ms += dice.expovariate(per_s) * 1000
        one = Recorded(f"q{number}", round(at_ms), 0, None, None, replica=f"gpu{number % 2}")
        one.prompt_tokens, one.answer_tokens = dice.randint(100, 6000), dice.randint(20, 400)
        seen.append(one)
    for timed in drive(engine, seen, supposed(seen), slow_m):
        assert timed.ttft_ms is not None
        assert timed.duration_ms is not None
        timed.was.ttfb_ms, timed.was.duration_ms = round(timed.ttft_ms), round(timed.duration_ms)
    return seen


@pytest.mark.parametrize("name", ["a100", "h100", "3090x2"])
def test_a_named_engine_is_found_again(name: str) -> None:
    found = fit(served(PROFILES[name]), None)
    assert found.good
    assert found.ttft is not None
    assert found.ttft.median < 0.02
    assert found.duration is not None
    assert found.duration.p90 < 0.05


def test_an_engine_of_no_profile_is_scaled_to() -> None:
    """Half as fast as an a100 at prompts, a third slower at steps."""
    a100 = PROFILES["a100"]
    slower = attrs.evolve(
        a100,
        prefill_token_ns=a100.prefill_token_ns * 2,
        base_ns=a100.base_ns * 4 // 3,
        sequence_ns=a100.sequence_ns * 4 // 3,
    )
    found = fit(served(slower, per_s=1), None)
    assert found.good
    assert found.engine.prefill_token_ns == pytest.approx(slower.prefill_token_ns, rel=0.15)
    assert found.engine.base_ns == pytest.approx(slower.base_ns, rel=0.15)


def test_a_slower_replica_is_found() -> None:
    """One of two takes half as long again."""
    found = fit(served(PROFILES["a100"], per_s=1, slow_m={"gpu1": 1500}), None)
    assert found.good
    assert found.slow_m["gpu1"] / found.slow_m["gpu0"] == pytest.approx(1.5, rel=0.08)
    assert found.duration is not None
    assert found.duration.p90 < 0.2
    assert fit(served(PROFILES["a100"], per_s=1), None).slow_m == {}


def test_lengths_that_the_log_does_not_tell_are_taken_from_bytes() -> None:
    """Streams without usage: a chunk is a token, whatever a chunk weighs."""
    seen = served(PROFILES["a100"], per_s=1)
    for one in seen:
        assert one.answer_tokens is not None
        one.answer_bytes, one.answer_tokens = one.answer_tokens * 310 + 400, None
    found = fit(seen, None)
    assert found.good
    assert found.duration is not None
    assert found.duration.median < 0.05
    for one in seen:
        one.answer_bytes = None
    blind = fit(seen, None)
    assert blind.duration is not None
    assert blind.duration.median > 0.15


def test_bytes_a_token_are_those_of_answers_that_tell_both() -> None:
    known, unknown = session(0, 0, 900), session(1, 9, 900)
    for one in (known, unknown):
        one.ttfb_ms, one.answer_bytes = 100, 3000
    known.answer_tokens, unknown.answer_tokens = 30, None
    unknown.answer_bytes = 4000
    assert answer_lengths([known, unknown]) == [30, 40]
    at_once = session(2, 0, 900)
    at_once.ttfb_ms, at_once.answer_bytes, at_once.answer_tokens = 900, 100, None
    assert answer_lengths([known, at_once]) == [30, round(100 / WHOLE_BYTES)]


def test_a_turn_computes_what_is_new_and_no_more() -> None:
    """Turns of 100 new tokens each, on blocks of 512."""
    seen, tokens = [], 2000
    for number in range(20):
        one = session(number, number * 10_000, 1000)
        one.replica, one.prompt_tokens, one.answer_tokens = "gpu0", tokens, 50
        tokens += 150
        seen.append(one)
    engine = PROFILES["tiny"]  # a prompt token is 0.01 ms
    later = drive(engine, seen, supposed(seen))[1:]
    assert all(one.ttft_ms is not None and 1 < one.ttft_ms < 3.2 for one in later)


def test_times_of_chance_fit_nothing() -> None:
    seen, dice = served(PROFILES["a100"]), random.Random(1)
    for one in seen:
        one.ttfb_ms = round(10 ** (dice.random() * 4))
        one.duration_ms = one.ttfb_ms + round(10 ** (2 + dice.random() * 3))
    assert not fit(seen, None).good


def test_too_few_times_fit_nothing() -> None:
    seen = served(PROFILES["a100"], count=FIT_REQUESTS_MIN)
    found = fit(seen, None)  # the first tenth is not judged
    assert found.ttft is found.duration is None
    assert not found.good


def test_the_engines_own_cache_size_is_taken() -> None:
    assert fit(served(PROFILES["h100"], count=80), 123_456).engine.kv_tokens == 123_456


def test_the_search_tells_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []
    fit(served(PROFILES["tiny"], count=80), None, lambda done, of: told.append((done, of)))
    assert told == sorted(told)
    assert all(done <= of for done, of in told)


def session(number: int, at_ms: int, took_ms: int | None, name: str = "s") -> Recorded:
    one = Recorded(f"q{number}", at_ms, 8000, name, None)
    one.prompt_tokens, one.answer_tokens, one.duration_ms = 2000 + 500 * number, 10, took_ms
    return one


def test_a_session_waits_for_its_answers() -> None:
    seen = [session(0, 1000, 400), session(1, 2000, 700), session(2, 2500, 100)]
    scripts = one_after_another(seen)
    # The third came before the second was answered: it does not wait.
    assert [(one.start_ms, [turn.think_ms for turn in one.turns]) for one in scripts] == [
        (0, [0, 600]),
        (1500, [0]),
    ]
    assert [one.start_ms for one in one_by_one(seen)] == [0, 1000, 1500]


def test_what_never_ended_is_waited_for_by_nobody() -> None:
    scripts = one_after_another([session(0, 0, None), session(1, 5000, 10)])
    assert [one.start_ms for one in scripts] == [0, 5000]


def test_blocks_of_the_log_are_taken_before_supposed_ones() -> None:
    known = session(0, 0, 1)
    known.blocks = (7, 8, 9)
    assert supposed([known])[0].blocks == (7, 8, 9)
    first, second = supposed([session(0, 0, 1), session(1, 9, 1)])
    assert len(first.blocks) == 3
    assert second.blocks[:3] == first.blocks
