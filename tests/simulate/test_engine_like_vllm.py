"""The engine model against what a real vLLM 0.32.0 (CPU, tiny model) showed under load.

The numbers are from two recorded load runs: 20 streams of 300 tokens at ``max_num_seqs`` 8, and 12
streams of 500 tokens with 19 KV blocks of 128 tokens. Two step times are fitted (8 and 4 sequences
in the batch: 5.0 and 3.95 ms); everything else must follow.
"""

import attrs
import pytest

from tests.simulate.drive import MS, Driven
from trioroute.simulate.engine_model import EngineModel
from trioroute.simulate.profiles import BLOCK_TOKENS, PROFILES
from trioroute.simulate.steps import Sequence

CPU = attrs.evolve(
    PROFILES["tiny"],
    base_ns=2_900_000,
    sequence_ns=262_500,
    prefill_token_ns=100_000,
    max_sequences=8,
    kv_tokens=4096 * BLOCK_TOKENS,
)
TTFT_S = [0.07] * 8 + [1.59] * 8 + [3.06] * 4
END_S = [1.58] * 8 + [3.06] * 8 + [4.24] * 4
TIMELINE = [(0.5, 8, 12), (1.4, 8, 12), (1.8, 8, 4), (2.9, 8, 4), (3.3, 4, 0), (4.2, 4, 0)]
"""Seconds, running, waiting."""

SMALL_KV_BLOCKS = 19
SMALL_KV_SHAPE = [(8, 4, 421), (8, 4, 842), (6, 6, 947)]
"""Running, waiting, KV use in thousandths, in order of appearance."""
SMALL_KV_PREEMPTIONS = 11


def test_the_load_timeline_has_the_shape_of_the_real_one() -> None:
    engine = EngineModel(CPU)
    driven = Driven(engine)
    seen: list[tuple[int, int, int]] = [(0, 0, 0)]
    arrivals = [(0, Sequence(60, 300, ())) for _ in range(20)]
    driven.run(
        arrivals,
        after_run=lambda now_ns: seen.append((now_ns, engine.running, len(engine.waiting))),
    )
    for number in range(20):
        assert driven.first_ns[number] / 1e9 == pytest.approx(TTFT_S[number], abs=0.07)
        assert driven.done_ns[number] / 1e9 == pytest.approx(END_S[number], abs=0.07)
    for at_s, running, waiting in TIMELINE:
        last = [row for row in seen if row[0] <= at_s * 1e9][-1]
        assert last[1:] == (running, waiting)


def test_with_few_blocks_the_batch_shrinks_as_the_real_one_did() -> None:
    engine = EngineModel(attrs.evolve(CPU, kv_tokens=SMALL_KV_BLOCKS * BLOCK_TOKENS))
    seen: list[tuple[int, int, int]] = []

    def note(now_ns: int) -> None:
        row = (
            engine.running,
            len(engine.waiting),
            engine.cache.in_use * 1000 // SMALL_KV_BLOCKS,
        )
        if row not in seen:
            seen.append(row)

    # Blocks are four times as large here, so are the answers.
    driven = Driven(engine)
    driven.run([(0, Sequence(60, 4 * 500, ())) for _ in range(12)], after_run=note)
    assert [row for row in seen if row in SMALL_KV_SHAPE] == SMALL_KV_SHAPE
    assert abs(engine.preemptions - SMALL_KV_PREEMPTIONS) <= 4
    assert len(driven.done_ns) == 12


def test_a_frozen_engine_reports_its_running_stream_and_a_counter_that_stands_still() -> None:
    engine = EngineModel(CPU)
    engine.submit(Sequence(60, 1501, ()), 0)
    engine.complete(engine.next_ns or 0)
    engine.freeze(1000 * MS)
    before = engine.generated_at(3000 * MS)
    assert engine.running == 1
    assert engine.generated_at(15_000 * MS) == before > 200
