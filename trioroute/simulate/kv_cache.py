"""KV blocks of one replica: a pool with a prefix cache, block by block, least recently used first.

A full block of known content has an id that stands for its whole prefix (as in vLLM's chained
hashes), so a plain table suffices. A block is *held* by one or more sequences under its id,
*private* to one sequence (no id yet, or a second copy), *idle* (cached, nobody's: may be evicted)
or *unused*. Held, private, idle and unused always add up to the capacity.
"""

from collections import OrderedDict
from collections.abc import Sequence


class KvCache:
    """Counts blocks; never holds content. ``evictions`` counts cached blocks given away."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.unused = capacity
        self.private = 0
        self.evictions = 0
        self._holders: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def in_use(self) -> int:
        """Blocks of running sequences: vLLM's ``kv_cache_usage_perc`` counts these."""
        return len(self._holders) + self.private

    @property
    def available(self) -> int:
        """Blocks a new owner can get: unused, or cached and nobody's."""
        return self.unused + len(self._idle)

    def cached(self, blocks: Sequence[int], most: int) -> int:
        """How many of the first ``most`` blocks are here, up to the first that is not."""
        holders, idle = self._holders, self._idle
        found = 0
        for block in blocks[:most]:
            if block not in holders and block not in idle:
                break
            found += 1
        return found

    def admit(self, blocks: Sequence[int], hits: int, new: int) -> bool:
        """Hold the first ``hits`` blocks and take ``new`` private ones: both or nothing."""
        idle = self._idle
        own = blocks[:hits]
        if self.available - sum(1 for block in own if block in idle) < new:
            return False
        holders = self._holders
        for block in own:
            if block in idle:
                del idle[block]
                holders[block] = 1
            else:
                holders[block] += 1
        return self.take(new)

    def take(self, count: int) -> bool:
        """Make ``count`` more blocks private, evicting what was used longest ago; all or none."""
        if count > self.available:
            return False
        for _ in range(count - self.unused):
            self._idle.popitem(last=False)
            self.unused += 1
            self.evictions += 1
        self.unused -= count
        self.private += count
        return True

    def publish(self, block: int) -> bool:
        """A private block was computed and gets its id. False: another copy is there already, and
        this one stays private, as in vLLM."""
        if block in self._holders or block in self._idle:
            return False
        self.private -= 1
        self._holders[block] = 1
        return True

    def release(self, held: Sequence[int], private: int) -> None:
        """A sequence gives back what it has. The end of a prompt is evicted before its start."""
        holders = self._holders
        for block in reversed(held):
            left = holders[block] - 1
            if left:
                holders[block] = left
            else:
                del holders[block]
                self._idle[block] = None
        self.private -= private
        self.unused += private

    def clear(self) -> None:
        """The process is gone."""
        self._holders.clear()
        self._idle.clear()
        self.private = 0
        self.unused = self.capacity
