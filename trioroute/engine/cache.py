"""The prefix cache: which blocks of earlier prompts need no prefill. No I/O, no time."""

from collections import OrderedDict
from collections.abc import Sequence

import attrs


@attrs.define
class PrefixCache:
    """Bounded set of block digests, least recently used out first.

    A digest covers everything before its block (see `tokens.block_digests`), so a hit on the n-th
    block means that all the n blocks are equal.
    """

    max_blocks: int
    _blocks: OrderedDict[bytes, None] = attrs.field(factory=OrderedDict, init=False)

    def __len__(self) -> int:
        """Blocks held now."""
        return len(self._blocks)

    def match(self, digests: Sequence[bytes]) -> int:
        """How many leading blocks are cached. The matched ones become the most recently used."""
        found = 0
        for digest in digests:
            if digest not in self._blocks:
                break
            found += 1
        self._touch(digests[:found])
        return found

    def insert(self, digests: Sequence[bytes]) -> None:
        """Keeps these blocks, as many leading ones as fit, and evicts what was used longest ago."""
        kept = digests[: self.max_blocks]
        self._touch(kept)
        while len(self._blocks) > self.max_blocks:
            self._blocks.popitem(last=False)

    def _touch(self, digests: Sequence[bytes]) -> None:
        # Last block first: the head of a prefix is then evicted after its tail, as in vLLM, where
        # a tail without its head would be dead weight.
        for digest in reversed(digests):
            self._blocks[digest] = None
            self._blocks.move_to_end(digest)
