"""Which prompt blocks were sent where, and how much prefill is still owed (RULES, least-work).

A block is a digest that stands for its whole prefix, so a tree of parents names every prompt by
its last block alone, and what a replica holds is closed towards the root: who has a block has all
before it. Only dispatches of the policy ``least-work`` are recorded here.
"""

from collections import OrderedDict
from collections.abc import Sequence

import attrs

from trioroute.events import Dispatched, Released
from trioroute.projections.conversations import Conversations

POLICY = "least-work"
"""Whose dispatches are recorded here."""

BLOCK_BYTES = 2048
"""UTF-8 bytes of prompt text a block: about 512 tokens. Only full blocks are known."""

BLOCKS_MAX = 512
"""Blocks a prompt is known by: its first 1 MiB. What follows counts as never seen."""

CACHE_TOKENS = 1_000_000
"""Taken as a replica's cache while it does not tell its own (chosen: an 80 GB card, 7B model)."""

HELD_MAX = 1 << 16
"""Most blocks recorded of one replica, whatever cache it claims (some 10 MB)."""

SPEED_TOKENS = 8000
"""Prefill tokens a second that a replica is taken to manage until its replies tell (chosen)."""

EVIDENCE_MS = 60_000
"""Past this much measured waiting both sums of the speed are halved."""

OVERHEAD_MS = 50
"""A prompt that takes less than this tells of the network and the step, not of the speed."""

FOUND_TOKENS_MAX = 1 << 20
"""Past this many prompt tokens the sums of what was found are halved."""

DEMAND_TOKENS_MAX = 1 << 23
"""Past this many the sums over all replicas are halved."""


@attrs.define(slots=True)
class Promise:
    """What one dispatch in flight owes: its own tokens, those before it, the sum with both."""

    tokens: int
    before: int
    mark: int


@attrs.define(slots=True)
class Sent:
    """One replica as the router's dispatches made it.

    ``held``: blocks, least recently used first, a prompt's end before its start. ``room``: how many
    its cache has. ``held_sum`` is for the digest. ``owed`` tokens were not computed at ``owed_ms``;
    ``mark`` counts all tokens ever promised. ``spent_tokens`` took ``spent_ms``: the speed.
    ``found`` of ``asked`` prompt tokens were held when they were sent.
    """

    held: OrderedDict[int, None] = attrs.field(factory=OrderedDict)
    room: int = 0
    held_sum: int = 0
    owed: int = 0
    owed_ms: int = 0
    mark: int = 0
    spent_tokens: int = SPEED_TOKENS
    spent_ms: int = 1000
    found: int = 0
    asked: int = 0

    def owed_at(self, at_ms: int) -> int:
        """Tokens promised and not yet computed, as far as the learned speed tells."""
        gone_ms = at_ms - self.owed_ms
        if gone_ms <= 0 or not self.owed:
            return self.owed
        return max(0, self.owed - gone_ms * self.spent_tokens // self.spent_ms)

    def depth(self, blocks: Sequence[int]) -> int:
        """How many of the prompt's blocks, from its start, were sent here and not pushed out."""
        return known_depth(self.held, blocks)

    @property
    def full(self) -> bool:
        """Whether a new block pushes an old one out."""
        return len(self.held) >= self.room


NOTHING_SENT = Sent(room=1)
"""Of a replica without a record; never changed."""


@attrs.define(slots=True)
class Demand:
    """What was asked lately of all replicas: ``uncached`` of ``asked`` tokens in ``requests`` were
    held nowhere that they were sent; ``again`` were asked before by the same conversation. It
    begins with a guess that soon counts for little (chosen: half is asked again)."""

    requests: int = 10
    asked: int = 100_000
    uncached: int = 50_000
    again: int = 50_000

    def count(self, asked: int, uncached: int, again: int) -> None:
        self.requests += 1
        self.asked += asked
        self.uncached += min(asked, uncached)
        self.again += again
        if self.asked > DEMAND_TOKENS_MAX:
            self.requests //= 2
            self.asked //= 2
            self.uncached //= 2
            self.again //= 2


@attrs.define(slots=True)
class Prompts:
    """``parent`` of each block that any replica holds (0 at a prompt's start), ``holders`` how many
    do. ``promises`` are by dispatch number."""

    sent: dict[str, Sent] = attrs.field(factory=dict)
    parent: dict[int, int] = attrs.field(factory=dict)
    holders: dict[int, int] = attrs.field(factory=dict)
    promises: dict[int, Promise] = attrs.field(factory=dict)
    conversations: Conversations = attrs.field(factory=Conversations)
    demand: Demand = attrs.field(factory=Demand)

    def of(self, replica: str) -> Sent:
        """What is recorded of a replica, to look at."""
        return self.sent.get(replica, NOTHING_SENT)

    def path(self, block: int) -> list[int]:
        """The blocks of the prompt that ends in ``block``, from its start; empty if unknown."""
        found: list[int] = []
        parent = self.parent
        while block and len(found) < BLOCKS_MAX:
            found.append(block)
            block = parent.get(block, 0)
        found.reverse()
        return found

    def split(self, blocks: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """The deepest known block, which stands for those up to it, and the blocks after it.

        Two prefixes with one digest cannot be told apart by the tree; then all blocks are new.
        """
        depth = known_depth(self.parent, blocks)
        known = blocks[:depth]
        if depth and tuple(map(self.parent.get, known)) == (0, *known[:-1]):
            return known[-1], blocks[depth:]
        return 0, blocks

    def joined(self, base: int, blocks: tuple[int, ...]) -> tuple[int, ...]:
        """The reverse of ``split``, as long as the state is the same."""
        return (*self.path(base), *blocks) if base else blocks


def known_depth(known: OrderedDict[int, None] | dict[int, int], blocks: Sequence[int]) -> int:
    """How many blocks from the start are in ``known``, which is closed towards the root.

    By halving: eight looks for a prompt of 100K tokens.
    """
    if not blocks or blocks[0] not in known:
        return 0
    low, high = 1, len(blocks)
    while low < high:
        middle = (low + high + 1) // 2
        if blocks[middle - 1] in known:
            low = middle
        else:
            high = middle - 1
    return low


def tokens_of(prompt_bytes: int, bytes_per_token_m: int) -> int:
    """Estimated tokens of so many bytes of text (RULES 3)."""
    return prompt_bytes * 1000 // bytes_per_token_m


def uncached(prompt_bytes: int, depth: int, bytes_per_token_m: int) -> int:
    """Estimated tokens to compute when ``depth`` blocks are held."""
    return tokens_of(max(0, prompt_bytes - depth * BLOCK_BYTES), bytes_per_token_m)


def dispatch(
    prompts: Prompts,
    version: int,
    at_ms: int,
    event: Dispatched,
    bytes_per_token_m: int,
    cache_tokens: int | None,
) -> None:
    """The prompt went to a replica: its blocks are there from now on, its tokens are owed."""
    sent = prompts.sent.get(event.replica)
    if sent is None:
        sent = prompts.sent[event.replica] = Sent()
    before = sent.owed_at(at_ms)
    sent.mark += event.uncached
    sent.owed, sent.owed_ms = before + event.uncached, at_ms
    prompts.promises[version] = Promise(event.uncached, before, sent.mark)
    asked = tokens_of(event.prompt_bytes, bytes_per_token_m)
    sent.asked += asked
    sent.found += max(0, asked - event.uncached)
    if sent.asked > FOUND_TOKENS_MAX:
        sent.asked //= 2
        sent.found //= 2
    block_tokens = max(1, tokens_of(BLOCK_BYTES, bytes_per_token_m))
    tokens = CACHE_TOKENS if cache_tokens is None else cache_tokens
    sent.room = min(HELD_MAX, max(1, tokens // block_tokens))
    blocks = prompts.joined(event.base, event.blocks)
    _hold(prompts, sent, blocks)
    again = prompts.conversations.ask(event.replica, blocks, at_ms) * block_tokens
    prompts.demand.count(asked, event.uncached, min(asked, again))


def _hold(prompts: Prompts, sent: Sent, blocks: tuple[int, ...]) -> None:
    """Use the blocks, the prompt's start last: so it is pushed out last."""
    held, parent, holders = sent.held, prompts.parent, prompts.holders
    for at in range(len(blocks) - 1, -1, -1):
        block = blocks[at]
        if block in held:
            held.move_to_end(block)
            continue
        held[block] = None
        sent.held_sum += block
        holders[block] = holders.get(block, 0) + 1
        if block not in parent:
            parent[block] = blocks[at - 1] if at else 0
    while len(held) > sent.room:
        block, _ = held.popitem(last=False)
        sent.held_sum -= block
        _let_go(prompts, block)


def _let_go(prompts: Prompts, block: int) -> None:
    left = prompts.holders[block] - 1
    if left:
        prompts.holders[block] = left
    else:
        del prompts.holders[block], prompts.parent[block]


def land(prompts: Prompts, number: int, replica: str, at_ms: int, event: Released | None) -> None:
    """A dispatch ended. If it was answered, it and what came before it is computed; an error costs
    no prefill, and neither does what has no first byte.

    ``event`` is None for one that failed or was orphaned.
    """
    promise = prompts.promises.pop(number, None)
    sent = prompts.sent.get(replica) if promise is not None else None
    if promise is None or sent is None:
        return
    owed = sent.owed_at(at_ms)
    if event is None or event.ttfb_ms is None or event.status != 200:
        owed = max(0, owed - promise.tokens)
    else:
        owed = min(owed, max(0, sent.mark - promise.mark))
        _learn_speed(sent, promise, event.ttfb_ms, event)
    sent.owed, sent.owed_ms = owed, max(sent.owed_ms, at_ms)


def _learn_speed(sent: Sent, promise: Promise, ttfb_ms: int, event: Released) -> None:
    """From streams only: the first byte of any other answer comes with its last.

    A stream takes at least a millisecond a token after its first byte; no engine is faster.
    """
    streamed = event.duration_ms - ttfb_ms >= max(2, event.completion_tokens or 0)
    if not streamed or promise.tokens * sent.spent_ms < sent.spent_tokens * OVERHEAD_MS:
        return
    sent.spent_tokens += promise.before + promise.tokens
    sent.spent_ms += max(1, ttfb_ms)
    if sent.spent_ms > EVIDENCE_MS:
        sent.spent_tokens //= 2
        sent.spent_ms //= 2
    sent.spent_tokens = min(max(sent.spent_tokens, sent.spent_ms // 10), sent.spent_ms * 1000)


def forget(prompts: Prompts, replica: str) -> None:
    """The engine's cache is gone, and what was owed with it (eject, sleep, another address)."""
    sent = prompts.sent.pop(replica, None)
    if sent is not None:
        for block in sent.held:
            _let_go(prompts, block)
    prompts.conversations.forget(replica)


def restart(prompts: Prompts, at_ms: int) -> None:
    """Nothing was promised later than now (a clock may have been ahead)."""
    for sent in prompts.sent.values():
        sent.owed_ms = min(sent.owed_ms, at_ms)
