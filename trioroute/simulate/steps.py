"""What an engine works on: sequences, and runs of equal steps."""

import attrs

from trioroute.simulate.profiles import BLOCK_TOKENS
from trioroute.simulate.script import Request

SPEED_M = 1000
"""Thousandths: the slowness of a healthy replica."""


@attrs.define(eq=False, slots=True)
class Sequence:
    """One prompt and its answer on one replica.

    ``blocks`` are the ids of its full blocks, of the prompt and, where known, of the answer;
    ``computed`` counts prompt tokens whose KV is there; ``generated`` stands still while it decodes
    (the engine's lockstep counts) and is exact before and after.
    """

    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]
    follows: tuple[int, int] = (0, 0)
    computed: int = 0
    generated: int = 0
    cached_tokens: int = 0
    held: list[int] = attrs.field(factory=list)
    private: int = 0
    order: int = 0
    decoding_since: int | None = None
    admitted: bool = False
    gone: bool = False

    @property
    def target(self) -> int:
        """Tokens to compute before it can decode: after a preemption its own answer too."""
        return self.prompt_tokens + self.generated

    def known(self, hits: int) -> int:
        """Tokens that need not be computed where its first ``hits`` blocks are cached, by what it
        goes on from (``Request.follows``); the last one always is."""
        blocks, tokens = self.follows
        return min(tokens, self.target - 1) if 0 < blocks <= hits else 0


@attrs.define(eq=False, slots=True)
class Run:
    """``steps`` equal steps from ``start_ns`` on; each later one costs ``growth_ns`` more."""

    start_ns: int
    steps: int
    first_ns: int
    growth_ns: int
    slow_m: int
    chunks: list[tuple[Sequence, int]]
    saturated: bool

    def span_ns(self, steps: int) -> int:
        """The duration of the first ``steps`` steps."""
        total = steps * self.first_ns + self.growth_ns * (steps * (steps - 1) // 2)
        return total * self.slow_m // SPEED_M

    def steps_begun(self, at_ns: int) -> int:
        """The steps that are over or under way at ``at_ns``, at least one."""
        low, high = 1, self.steps
        elapsed_ns = at_ns - self.start_ns
        while low < high:
            middle = (low + high) // 2
            if self.span_ns(middle) >= elapsed_ns:
                high = middle
            else:
                low = middle + 1
        return low


@attrs.define(slots=True)
class Progress:
    """What a run brought: who has a first token now, and who is complete."""

    first: list[Sequence] = attrs.field(factory=list)
    done: list[Sequence] = attrs.field(factory=list)


def sequence_of(request: Request) -> Sequence:
    return Sequence(request.prompt_tokens, request.output_tokens, request.blocks, request.follows)


def blocks_for(tokens: int) -> int:
    """Blocks that hold so many tokens."""
    return -(-tokens // BLOCK_TOKENS)
