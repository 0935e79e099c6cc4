"""Continuous batching with chunked prefill, queueing and paged KV: a model without I/O or clock.

One step, as in vLLM's V1 scheduler: every decoding sequence gets one token, and up to
`CHUNK_TOKENS` prompt tokens of the sequences still prefilling are computed beside it. The step's
duration is one decode interval (if anything decodes) plus the chunk at prefill speed; so a long
prompt slows the others down, but does not stop them. A sequence whose prompt is complete at the
end of a step has its first token then.
"""

from collections import deque
from collections.abc import Sequence as Items

import attrs

from trioroute.engine.cache import PrefixCache
from trioroute.engine.settings import EngineSettings
from trioroute.engine.tokens import block_digests, count_tokens

CHUNK_TOKENS = 2048
"""Prompt tokens per step: vLLM's `max_num_batched_tokens` default for serving."""

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")


class QueueFullError(Exception):
    """As many unfinished requests as `max_queued` allows; vLLM answers 503."""


@attrs.define(eq=False)
class Sequence:
    """One prompt and its answer so far. Times are seconds of the caller's clock, None = not yet.

    `words` is the whole answer of `max_tokens` tokens; `generated` tells how much of it is out;
    `finish_reason` is the one it will end with. Embeddings have `max_tokens` 0.
    """

    prompt: bytes
    max_tokens: int
    words: str = ""
    finish_reason: str = "length"
    prompt_tokens: int = attrs.field(init=False)
    prefill_left: int = attrs.field(init=False)
    cached_tokens: int = 0
    generated: int = 0
    done: bool = False
    arrived_s: float = 0.0
    admitted_s: float | None = None
    first_token_s: float | None = None
    preempted: int = 0
    _digests: tuple[bytes, ...] | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        """Counts the prompt once."""
        self.prompt_tokens = count_tokens(self.prompt)
        self.prefill_left = self.prompt_tokens

    @property
    def kv_tokens(self) -> int:
        """Tokens whose keys and values it holds in its next step; the token that step samples is
        not among them, as it is fed to the model only in the step after."""
        return self.prompt_tokens + self.generated

    def digests(self, block_tokens: int) -> tuple[bytes, ...]:
        """Block digests of the prompt, computed once."""
        if self._digests is None:
            self._digests = block_digests(self.prompt, block_tokens)
        return self._digests


@attrs.frozen
class Step:
    """What one step computes: `chunks` are (sequence, prompt tokens), `decoding` get one token."""

    duration_s: float
    decoding: tuple[Sequence, ...]
    chunks: tuple[tuple[Sequence, int], ...]


@attrs.define
class Counters:
    """Totals since the start, under vLLM's meanings (tokens, except preemptions and rejections)."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    generation_tokens: int = 0
    cache_queries: int = 0
    cache_hits: int = 0
    preemptions: int = 0
    rejections: int = 0
    finished: dict[str, int] = attrs.field(factory=lambda: dict.fromkeys(FINISH_REASONS, 0))


@attrs.define
class Batch:
    """Waiting queue and running set of one replica. Callers: submit, then plan and complete steps.

    The waiting queue is bounded by `max_queued`; with 0 it is bounded by the connections only, as
    in vLLM. KV blocks are counted per sequence: sharing between running sequences is not modelled.
    """

    settings: EngineSettings
    cache: PrefixCache = attrs.field(init=False)
    counters: Counters = attrs.field(factory=Counters, init=False)
    waiting: deque[Sequence] = attrs.field(factory=deque, init=False)
    running: list[Sequence] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        """Sizes the prefix cache in blocks."""
        self.cache = PrefixCache(self.settings.cache_tokens // self.settings.block_tokens)

    @property
    def kv_blocks(self) -> int:
        """KV blocks there are (vLLM's `num_gpu_blocks`)."""
        return max(1, self.settings.kv_tokens // self.settings.block_tokens)

    @property
    def kv_blocks_used(self) -> int:
        """KV blocks the running sequences hold in the next step."""
        return sum(self._blocks(sequence.kv_tokens) for sequence in self.running)

    @property
    def kv_usage(self) -> float:
        """Share of the KV blocks in use, 0 to 1 (`vllm:kv_cache_usage_perc`)."""
        return min(1.0, self.kv_blocks_used / self.kv_blocks)

    def submit(self, sequences: Items[Sequence], now_s: float) -> None:
        """Queues the sequences of one request, all or none. Raises QueueFullError."""
        limit = self.settings.max_queued
        if limit and len(self.waiting) + len(self.running) + len(sequences) > limit:
            self.counters.rejections += 1
            raise QueueFullError
        for sequence in sequences:
            sequence.arrived_s = now_s
            self.waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Forgets a sequence wherever it is; one that is finished or unknown is no error."""
        sequence.done = True
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def plan(self, now_s: float) -> Step | None:
        """Admits what fits and lays out the next step; None when there is nothing to compute."""
        self._make_room()
        self._admit(now_s)
        if not self.running:
            return None
        decoding = tuple(one for one in self.running if one.prefill_left == 0)
        chunks: list[tuple[Sequence, int]] = []
        budget = CHUNK_TOKENS
        for sequence in self.running:
            if sequence.prefill_left and budget:
                tokens = min(sequence.prefill_left, budget)
                budget -= tokens
                chunks.append((sequence, tokens))
        prefill_s = (CHUNK_TOKENS - budget) / self.settings.prefill_tokens_per_s
        decode_s = 1 / self.settings.decode_tokens_per_s if decoding else 0.0
        return Step(prefill_s + decode_s, decoding, tuple(chunks))

    def complete(self, step: Step, now_s: float) -> list[Sequence]:
        """Applies a step that has lasted its duration; the sequences that moved on, aborted not."""
        advanced: list[Sequence] = []
        for sequence, tokens in step.chunks:
            if sequence.done:
                continue
            sequence.prefill_left -= tokens
            if sequence.prefill_left == 0:
                self._prompt_computed(sequence, now_s)
                advanced.append(sequence)
        for sequence in step.decoding:
            if not sequence.done:
                self._one_token(sequence)
                advanced.append(sequence)
        return advanced

    def _prompt_computed(self, sequence: Sequence, now_s: float) -> None:
        if sequence.first_token_s is None:
            sequence.first_token_s = now_s
            self.counters.prompt_tokens += sequence.prompt_tokens
            self.counters.cached_tokens += sequence.cached_tokens
        self.cache.insert(sequence.digests(self.settings.block_tokens))
        self._one_token(sequence)

    def _one_token(self, sequence: Sequence) -> None:
        if sequence.max_tokens:  # embeddings compute a prompt and generate nothing
            sequence.generated += 1
            self.counters.generation_tokens += 1
        if sequence.generated >= sequence.max_tokens:
            sequence.done = True
            self.running.remove(sequence)
            self.counters.finished[sequence.finish_reason] += 1
            if sequence.generated:
                whole = sequence.prompt + sequence.words.encode()
                self.cache.insert(block_digests(whole, self.settings.block_tokens))

    def _admit(self, now_s: float) -> None:
        free = self.kv_blocks - self.kv_blocks_used
        while self.waiting and len(self.running) < self.settings.max_running:
            sequence = self.waiting[0]
            needed = self._blocks(sequence.kv_tokens)
            if needed > free and self.running:  # first come, first served: nobody overtakes
                return
            free -= needed
            self.running.append(self.waiting.popleft())
            self._look_up(sequence)
            if sequence.admitted_s is None:
                sequence.admitted_s = now_s

    def _look_up(self, sequence: Sequence) -> None:
        digests = sequence.digests(self.settings.block_tokens)
        hit = self.cache.match(digests) * self.settings.block_tokens
        # vLLM always computes at least the last prompt token: it needs its logits.
        hit = min(hit, sequence.prompt_tokens - 1)
        sequence.prefill_left = sequence.kv_tokens - hit
        if not sequence.preempted:
            sequence.cached_tokens = hit
            self.counters.cache_queries += sequence.prompt_tokens
            self.counters.cache_hits += hit

    def _make_room(self) -> None:
        """Preempts the youngest until the next step fits; vLLM too recomputes it later."""
        while len(self.running) > 1 and self.kv_blocks_used > self.kv_blocks:
            youngest = self.running.pop()
            youngest.preempted += 1
            youngest.prefill_left = youngest.kv_tokens
            self.counters.preemptions += 1
            self.waiting.appendleft(youngest)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.settings.block_tokens)
