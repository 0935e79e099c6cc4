"""What trioroute's policies are measured against, for simulation only.

Baselines see what a router sees: its own requests in flight and the keys or the prompt's blocks of
the request at hand. They choose among LIVE replicas; where there is none, and for the way back, the
rules do. Their arrivals carry no keys, so they neither have pins nor spill.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable

import attrs

from trioroute.policy.candidates import Candidate, look
from trioroute.policy.commands import Arrive
from trioroute.policy.policies import Chooser
from trioroute.policy.select import Choice, choose
from trioroute.projections import State
from trioroute.simulate.profiles import BLOCK_TOKENS
from trioroute.simulate.script import Request

CACHE_THRESHOLD = 0.3
BALANCE_ABS = 8
BALANCE_REL = 2.0
TREE_BLOCKS = 8192
"""As sglang's cache-aware router is described: follow a match of more than 30 % of the prompt,
unless the loads differ by more than so many requests and by this factor. Its defaults of 64
requests and 1.5 are made for batches of hundreds and would make a weak opponent here (TTFT of the
conversation trace at 0.7: 9.4 s instead of 2.9, of agents:48 13.2 instead of 8.6; the same on
agents:16 and 32); 8 and 2 are chosen. What was sent to a
replica is remembered up to 4M tokens (there: 2^24 characters)."""


@attrs.define(slots=True)
class Sight:
    """What a baseline sees beside the command: the request at hand and, where ``remembers``, which
    blocks of prompts were sent where, the oldest forgotten first. Kept by the world. ``seed`` lets
    hashes fall differently in runs of another seed."""

    seed: int = 0
    request: Request | None = None
    remembers: bool = False
    sent: dict[str, OrderedDict[int, None]] = attrs.field(factory=dict)

    @property
    def blocks(self) -> tuple[int, ...]:
        """The full blocks of the prompt at hand."""
        assert self.request is not None
        return self.request.blocks[: self.request.prompt_tokens // BLOCK_TOKENS]

    def matched(self, replica: str) -> int:
        """How many of the prompt's blocks, from its start, were sent to ``replica``."""
        known: OrderedDict[int, None] = self.sent.get(replica) or OrderedDict()
        count = 0
        for block in self.blocks:
            if block not in known:
                break
            count += 1
        return count

    def dispatched(self, replica: str) -> None:
        """The request at hand went to ``replica``."""
        if not self.remembers:
            return
        known = self.sent.setdefault(replica, OrderedDict())
        for block in self.blocks:
            known[block] = None
            known.move_to_end(block)
        while len(known) > TREE_BLOCKS:
            known.popitem(last=False)


Pick = Callable[[State, Arrive, list[Candidate]], Candidate]


def _choosing(pick: Pick) -> Chooser:
    """A chooser that picks among the LIVE replicas that were not tried yet."""

    def chooser(state: State, arrive: Arrive) -> Choice:
        pool = tuple(look(state, arrive.model, arrive.at_ms, arrive.tried))
        live = [one for one in pool if one.standing == "LIVE" and not one.tried and not one.full]
        if not live:
            return choose(state, arrive)
        return Choice("chosen", pick(state, arrive, live).name, "load", pool, tuple(live))

    return chooser


def _next_in_turn(state: State, arrive: Arrive, candidates: list[Candidate]) -> Candidate:
    """The first after the one that was chosen last."""
    cursor = state.load.cursor.get(arrive.model, 0)
    for one in candidates:
        if one.ordinal > cursor:
            return one
    return candidates[0]


def _least_requests(state: State, arrive: Arrive, candidates: list[Candidate]) -> Candidate:
    least = min(one.own for one in candidates)
    return _next_in_turn(state, arrive, [one for one in candidates if one.own == least])


def _power_of_two(state: State, arrive: Arrive, candidates: list[Candidate]) -> Candidate:
    count = len(candidates)
    if count == 1:
        return candidates[0]
    first = arrive.draw % count
    second = (first + 1 + (arrive.draw >> 32) % (count - 1)) % count
    one, other = candidates[first], candidates[second]
    return other if other.own < one.own else one


def _round_robin(sight: Sight) -> Chooser:
    return _choosing(_next_in_turn)


def _by_requests(sight: Sight) -> Chooser:
    return _choosing(_least_requests)


def _by_two(sight: Sight) -> Chooser:
    return _choosing(_power_of_two)


def _consistent_hash(sight: Sight) -> Chooser:
    """By session, else by prefix, else by request: the highest of a hash with each replica's name
    wins (rendezvous), so that a replica that leaves moves only its own keys."""

    def pick(state: State, arrive: Arrive, candidates: list[Candidate]) -> Candidate:
        request = sight.request
        assert request is not None
        text = f"{sight.seed}/{request.session or request.prefix or request.name}"
        return max(candidates, key=lambda one: _score(text, one.name))

    return _choosing(pick)


def _score(text: str, name: str) -> bytes:
    return hashlib.blake2b(f"{text}\0{name}".encode(), digest_size=8).digest()


def _prefix_tree(sight: Sight) -> Chooser:
    """Longest matching prefix unless out of balance, then the least requests."""
    sight.remembers = True

    def pick(state: State, arrive: Arrive, candidates: list[Candidate]) -> Candidate:
        loads = [one.own for one in candidates]
        if max(loads) - min(loads) > BALANCE_ABS and max(loads) > min(loads) * BALANCE_REL:
            return _least_requests(state, arrive, candidates)
        matches = [sight.matched(one.name) for one in candidates]
        most = max(matches)
        if most > CACHE_THRESHOLD * len(sight.blocks):
            best = [one for one, match in zip(candidates, matches, strict=True) if match == most]
            return _least_requests(state, arrive, best)
        return min(candidates, key=lambda one: len(sight.sent.get(one.name, ())))

    return _choosing(pick)


BASELINES: dict[str, Callable[[Sight], Chooser]] = {
    "round-robin": _round_robin,
    "least-requests": _by_requests,
    "power-of-two": _by_two,
    "consistent-hash": _consistent_hash,
    "prefix-tree": _prefix_tree,
}
