"""One replica in virtual time: continuous batching with chunked prefill, paged KV, preemption.

A step, as in vLLM's V1 scheduler: every decoding sequence gets one token, what is left of the token
budget goes to prompts, first come first served; a waiting request is admitted while there is budget
left, room in the batch, and blocks for its whole prompt (vLLM reserves chunk by chunk, which
differs only when the pool is nearly full). When a block is needed and there is none, the sequence
admitted last is preempted: it goes to the head of the queue and is computed again.

Steps are not taken one by one. All decoding sequences move in lockstep, so a *run* of steps that do
the same is one event: it ends at the next finish, block boundary or end of a prompt, its duration
is an arithmetic series, and an arrival cuts it short at the end of the step under way.
"""

import heapq
from collections import deque

from trioroute.simulate.kv_cache import KvCache
from trioroute.simulate.profiles import BLOCK_TOKENS, EngineProfile
from trioroute.simulate.steps import SPEED_M, Progress, Run, Sequence, blocks_for

FINISH, BOUNDARY = 0, 1


class EngineModel:
    """Callers: ``submit``, and ``complete`` when the clock reads ``next_ns``. Times must not go
    back. ``queried_tokens`` and ``cached_tokens`` are vLLM's prefix cache queries and hits."""

    def __init__(self, profile: EngineProfile) -> None:
        self.profile = profile
        self.cache = KvCache(profile.kv_blocks)
        self.waiting: deque[Sequence] = deque()
        self.prefilling: list[Sequence] = []
        self.decoding = self.preemptions = 0
        self.queried_tokens = self.cached_tokens = 0
        self.slow_m = SPEED_M
        self.frozen_ns: int | None = None
        self._run: Run | None = None
        self._context = 0  # tokens of KV that the next step's decoding reads
        self._decoded = 0  # steps in which sequences decoded: the lockstep's clock
        self._due: list[tuple[int, int, int, Sequence]] = []
        self._batch: dict[int, Sequence] = {}  # running, by order of admission
        self._gone: list[Sequence] = []
        self._admissions = 0
        self._tokens = 0

    @property
    def next_ns(self) -> int | None:
        """When the run under way ends; None while idle or frozen."""
        run = self._run
        if run is None or self.frozen_ns is not None:
            return None
        return run.start_ns + run.span_ns(run.steps)

    @property
    def running(self) -> int:
        return len(self._batch)

    def fits(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether such a request could ever be served here; vLLM answers 400 otherwise."""
        return blocks_for(prompt_tokens + output_tokens + 1) <= self.cache.capacity

    def generated_at(self, at_ns: int) -> int:
        """vLLM's ``generation_tokens_total`` at this moment."""
        run = self._run
        if run is None:
            return self._tokens
        at_ns = self._here(at_ns)
        begun = run.steps_begun(at_ns)
        over = begun if run.start_ns + run.span_ns(begun) <= at_ns else begun - 1
        return self._tokens + over * self.decoding

    def submit(self, sequence: Sequence, now_ns: int) -> None:
        """Queue a sequence; it may start with the next step."""
        idle_queue = not self.waiting
        self.waiting.append(sequence)
        if self._run is None:
            if self.frozen_ns is None:
                self._plan(now_ns)
        elif idle_queue and not self._run.saturated:
            self._cut(now_ns)

    def abort(self, sequence: Sequence, now_ns: int) -> None:
        """The client of ``sequence`` is gone: forget it, at the end of the step at the latest."""
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        elif sequence.order in self._batch:
            sequence.gone = True
            self._gone.append(sequence)
            self._cut(now_ns)

    def kill(self) -> None:
        """The process is gone, with everything it held."""
        for held in (self.cache, self.waiting, self.prefilling, self._batch, self._gone, self._due):
            held.clear()
        self._run = self.frozen_ns = None
        self.decoding = self._context = self._tokens = 0

    def slow_down(self, slow_m: int, now_ns: int) -> None:
        """Steps last ``slow_m`` thousandths of their time, from the next one on."""
        self._cut(now_ns)
        self.slow_m = slow_m

    def freeze(self, now_ns: int) -> None:
        """Stand still: requests are taken and nothing moves."""
        self.frozen_ns = now_ns

    def thaw(self, now_ns: int) -> None:
        """Go on where it stood."""
        frozen_ns, self.frozen_ns = self.frozen_ns, None
        if self._run is not None and frozen_ns is not None:
            self._run.start_ns += now_ns - frozen_ns
        elif self._run is None:
            self._plan(now_ns)

    def _cut(self, now_ns: int) -> None:
        if self._run is not None:
            self._run.steps = self._run.steps_begun(self._here(now_ns))

    def _here(self, now_ns: int) -> int:
        return now_ns if self.frozen_ns is None else self.frozen_ns

    def complete(self, now_ns: int) -> Progress:
        """The run ended: apply it and begin the next one."""
        run, self._run = self._run, None
        assert run is not None
        progress = Progress()
        grown = run.steps * self.decoding
        self._decoded += run.steps if self.decoding else 0
        self._tokens += grown
        self._context += grown
        for sequence, tokens in run.chunks:
            self._computed(sequence, sequence.computed + tokens * run.steps, progress)
        due = self._due
        while due and due[0][0] <= self._decoded and due[0][1] == FINISH:
            _, _, order, sequence = heapq.heappop(due)
            alive = sequence.order == order and not sequence.gone
            if alive and sequence.decoding_since is not None:
                self._stop_decoding(sequence)
                self._finish(sequence, progress)
        while self._gone:
            self._leave(self._gone.pop())
        self._plan(now_ns)
        return progress

    def _computed(self, sequence: Sequence, computed: int, progress: Progress) -> None:
        self._publish(sequence, computed)
        if computed < sequence.target or sequence.gone:
            return
        self.prefilling.remove(sequence)
        if not sequence.generated:
            progress.first.append(sequence)
        sequence.generated += 1
        self._tokens += 1
        if sequence.generated >= sequence.output_tokens:
            self._finish(sequence, progress)
            return
        sequence.decoding_since = self._decoded
        self.decoding += 1
        self._context += sequence.target
        left = sequence.output_tokens - sequence.generated
        heapq.heappush(self._due, (self._decoded + left, FINISH, sequence.order, sequence))
        self._watch_boundary(sequence)

    def _watch_boundary(self, sequence: Sequence) -> None:
        """The step that needs one more block than the sequence has, if it lives to see it."""
        assert sequence.decoding_since is not None
        since = sequence.decoding_since
        room = (len(sequence.held) + sequence.private) * BLOCK_TOKENS
        due = since + room - sequence.target + 1
        if due < since + sequence.output_tokens - sequence.generated:
            heapq.heappush(self._due, (due, BOUNDARY, sequence.order, sequence))

    def _publish(self, sequence: Sequence, computed: int) -> None:
        """Blocks that are full now can be shared from now on."""
        first = sequence.computed // BLOCK_TOKENS
        sequence.computed = computed
        for block in sequence.blocks[first : computed // BLOCK_TOKENS]:
            if self.cache.publish(block):
                sequence.held.append(block)
                sequence.private -= 1

    def _stop_decoding(self, sequence: Sequence) -> None:
        """Make ``generated`` exact and take it out of the lockstep."""
        assert sequence.decoding_since is not None
        sequence.generated += self._decoded - sequence.decoding_since
        sequence.decoding_since = None
        self.decoding -= 1
        self._context -= sequence.target

    def _finish(self, sequence: Sequence, progress: Progress) -> None:
        # The last token is sampled and never fed back: its KV is not there.
        self._publish(sequence, sequence.target - 1)
        self._leave(sequence)
        progress.done.append(sequence)

    def _leave(self, sequence: Sequence) -> None:
        if sequence.decoding_since is not None:
            self._stop_decoding(sequence)
        elif sequence in self.prefilling:
            self.prefilling.remove(sequence)
        del self._batch[sequence.order]
        self.cache.release(sequence.held, sequence.private)
        sequence.held, sequence.private = [], 0

    def _plan(self, now_ns: int) -> None:
        """Lay out the next run; none when there is nothing to compute."""
        self._extend()
        chunks, budget = self._lay_out()
        decoding = self.decoding
        if not chunks and not decoding:
            return
        profile = self.profile
        full = bool(self.waiting) or len(self._batch) >= profile.max_sequences
        first_ns = (
            profile.base_ns
            + sum(tokens for _, tokens in chunks) * profile.prefill_token_ns
            + (decoding + len(chunks)) * profile.sequence_ns
            + self._context * profile.context_token_ns
        )
        self._run = Run(
            now_ns,
            self._steps_alike(chunks, budget),
            first_ns,
            decoding * profile.context_token_ns,
            self.slow_m,
            chunks,
            saturated=full or budget == 0,
        )

    def _steps_alike(self, chunks: list[tuple[Sequence, int]], budget: int) -> int:
        steps = self._due[0][0] - self._decoded if self.decoding else 1 << 40
        if not chunks:
            return steps
        if len(chunks) > 1 or budget:
            return 1
        sequence, tokens = chunks[0]
        return min(steps, max(1, (sequence.target - sequence.computed - 1) // tokens))

    def _extend(self) -> None:
        """Give a block to each sequence whose next token needs one; preempt where none is left."""
        due = self._due
        while due and due[0][0] <= self._decoded:
            _, _, order, sequence = heapq.heappop(due)
            if sequence.order != order or sequence.decoding_since is None:
                continue  # it ended or was preempted since
            while not self.cache.take(1):
                victim = self._batch[next(reversed(self._batch))]
                self._preempt(victim)
                if victim is sequence:
                    break
            else:
                sequence.private += 1
                self._watch_boundary(sequence)

    def _preempt(self, victim: Sequence) -> None:
        self._leave(victim)
        self.preemptions += 1
        self.waiting.appendleft(victim)

    def _lay_out(self) -> tuple[list[tuple[Sequence, int]], int]:
        """The prompt chunks of the next step, and what is left of its token budget."""
        budget = self.profile.step_tokens - self.decoding
        chunks: list[tuple[Sequence, int]] = []
        for sequence in self.prefilling:
            if budget <= 0:
                break
            tokens = min(sequence.target - sequence.computed, budget)
            chunks.append((sequence, tokens))
            budget -= tokens
        waiting = self.waiting
        while waiting and budget > 0 and len(self._batch) < self.profile.max_sequences:
            sequence = waiting[0]
            if not self._admit(sequence):
                break  # first come, first served: nobody overtakes
            waiting.popleft()
            tokens = min(sequence.target - sequence.computed, budget)
            chunks.append((sequence, tokens))
            budget -= tokens
        return chunks, budget

    def _admit(self, sequence: Sequence) -> bool:
        target = sequence.target
        # At least the last token is computed: its logits are needed (as in vLLM).
        hits = self.cache.cached(sequence.blocks, (target - 1) // BLOCK_TOKENS)
        private = blocks_for(target) - hits
        if not self.cache.admit(sequence.blocks, hits, private):
            return False
        sequence.held, sequence.private = list(sequence.blocks[:hits]), private
        sequence.computed = hits * BLOCK_TOKENS
        self._publish(sequence, max(sequence.computed, sequence.known(hits)))
        if not sequence.admitted:
            sequence.admitted = True
            sequence.cached_tokens = sequence.computed
            self.queried_tokens += sequence.prompt_tokens
            self.cached_tokens += sequence.computed
        self._admissions += 1
        sequence.order = self._admissions
        self._batch[sequence.order] = sequence
        self.prefilling.append(sequence)
        return True
