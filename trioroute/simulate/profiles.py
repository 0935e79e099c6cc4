"""Named engines: every constant of the engine model in one table, with where it comes from.

A profile is one replica that serves a 7-billion-parameter model in bf16: Qwen2.5 7B, 7.6 billion
parameters, 28 layers with 4 KV heads of 128, so 57,344 bytes of KV a token. The costs follow from
the cards' data sheets; shares of use are chosen.

- ``prefill_token_ns``: 15.2 GFLOP a token over the dense bf16 rate, at 60 % (a100: 312 TFLOPS),
  50 % (h100: 989) or, with a bus between the cards, 40 % (two RTX 3090: 71 each).
- ``base_ns``: 15.2 GB of weights read once a step at 80 % of the memory's rate (a100: 2.04 TB/s,
  h100: 3.35), or 75 % of two 3090s' 936 GB/s, and there 4 ms for all-reduce over PCIe (chosen).
- ``context_token_ns``: one token's KV read at that same rate.
- ``sequence_ns``: sampling, scheduling and detokenising for one sequence (chosen).
- ``kv_tokens``: 90 % of the memory (vLLM's ``gpu_memory_utilization``) less weights and 2 GB of
  activations a replica (chosen), over the KV of a token, rounded down.
- ``step_tokens``, ``max_sequences``: vLLM's ``max_num_batched_tokens`` and ``max_num_seqs`` of the
  API server: 8192 and 1024 from 70 GiB on other than A100, else 2048 and 256.
"""

import attrs

BLOCK_TOKENS = 512
"""Tokens a block, of cache and of KV: the block of the public traces. vLLM's is 16; a coarser one
recomputes up to 511 tokens more of a prompt that goes on, under every policy alike."""


@attrs.frozen(kw_only=True)
class EngineProfile:
    """What a step costs and how much there is; times are nanoseconds.

    step = base + prefill tokens * prefill_token + sequences * sequence + context * context_token
    """

    name: str
    base_ns: int
    prefill_token_ns: int
    sequence_ns: int
    context_token_ns: int
    step_tokens: int
    max_sequences: int
    kv_tokens: int

    @property
    def kv_blocks(self) -> int:
        return self.kv_tokens // BLOCK_TOKENS


PROFILES: dict[str, EngineProfile] = {
    profile.name: profile
    for profile in (
        EngineProfile(
            name="3090x2",
            base_ns=14_800_000,
            prefill_token_ns=268_000,
            sequence_ns=20_000,
            context_token_ns=41,
            step_tokens=2048,
            max_sequences=256,
            kv_tokens=445_000,
        ),
        EngineProfile(
            name="a100",
            base_ns=9_300_000,
            prefill_token_ns=81_000,
            sequence_ns=20_000,
            context_token_ns=35,
            step_tokens=2048,
            max_sequences=256,
            kv_tokens=955_000,
        ),
        EngineProfile(
            name="h100",
            base_ns=5_700_000,
            prefill_token_ns=31_000,
            sequence_ns=20_000,
            context_token_ns=21,
            step_tokens=8192,
            max_sequences=1024,
            kv_tokens=955_000,
        ),
        # Round numbers, chosen: closed forms can be checked by eye.
        EngineProfile(
            name="tiny",
            base_ns=1_000_000,
            prefill_token_ns=10_000,
            sequence_ns=100_000,
            context_token_ns=0,
            step_tokens=1024,
            max_sequences=8,
            kv_tokens=64 * BLOCK_TOKENS,
        ),
    )
}
