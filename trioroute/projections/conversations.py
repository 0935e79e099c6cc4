"""Which conversations come where, counted by how their prompts go on (RULES 9.3, 9.8).

Nobody has to name them: a prompt that holds the whole prompt before it goes on with that one's
conversation. A conversation is kept as the last full block of its last prompt.
"""

from collections.abc import Sequence

import attrs

SLOT_MS = 30_000
LIVE_SLOTS = 3
"""Who asked within these slots, the last 60 to 90 s, is expected again (chosen: a person's or an
agent's pause)."""

KNOWN_SLOTS = 20
"""Who asked within these, some 10 minutes, is known again (chosen: longer than a request waits)."""

CONVERSATIONS_MAX = 1 << 16
"""Most that are known; the one that asked longest ago is forgotten first (some 10 MB)."""


@attrs.define(slots=True)
class Conversations:
    """``last``: by the last block, the replica that was asked last and the slot, oldest first.
    ``asked`` counts them by replica and slot, in no order that matters."""

    last: dict[int, tuple[str, int]] = attrs.field(factory=dict)
    asked: dict[str, dict[int, int]] = attrs.field(factory=dict, repr=False)

    def live(self, replica: str, at_ms: int) -> int:
        """How many asked ``replica`` last, and lately."""
        oldest = at_ms // SLOT_MS - LIVE_SLOTS + 1
        counts = self.asked.get(replica)
        return sum([n for slot, n in counts.items() if slot >= oldest]) if counts else 0

    def counted(self, block: int, replica: str, at_ms: int) -> bool:
        """Whether the one whose last prompt ended in ``block`` is among the live of ``replica``."""
        last = self.last.get(block)
        return last is not None and last[0] == replica and last[1] > at_ms // SLOT_MS - LIVE_SLOTS

    def ask(self, replica: str, blocks: Sequence[int], at_ms: int) -> int:
        """A prompt came: its conversation goes on, or begins. Gives the blocks it had before."""
        slot = at_ms // SLOT_MS
        again = 0
        for at in range(len(blocks) - 1, -1, -1):
            if blocks[at] in self.last:
                self._drop(blocks[at])
                again = at + 1
                break
        if blocks:
            self.put(blocks[-1], replica, slot)
        while self.last:
            block, (_, asked) = next(iter(self.last.items()))
            if asked > slot - KNOWN_SLOTS and len(self.last) <= CONVERSATIONS_MAX:
                break
            self._drop(block)
        return again

    def put(self, block: int, replica: str, slot: int) -> None:
        """One that is not known yet, whose last prompt ended in ``block``."""
        self.last[block] = replica, slot
        counts = self.asked.setdefault(replica, {})
        counts[slot] = counts.get(slot, 0) + 1

    def forget(self, replica: str) -> None:
        """The replica's cache is gone: nobody has a reason to come back to it."""
        if self.asked.pop(replica, None) is not None:
            for block in [b for b, (name, _) in self.last.items() if name == replica]:
                del self.last[block]

    def step_back(self, at_ms: int) -> None:
        """Nobody asked later than now: the clock that told so was ahead."""
        now = at_ms // SLOT_MS
        for block, (replica, slot) in list(self.last.items()):
            if slot > now:
                counts = self.asked[replica]
                counts[slot] -= 1
                if not counts[slot]:
                    del counts[slot]
                counts[now] = counts.get(now, 0) + 1
                self.last[block] = replica, now

    def _drop(self, block: int) -> None:
        replica, slot = self.last.pop(block)
        counts = self.asked[replica]
        counts[slot] -= 1
        if not counts[slot]:
            del counts[slot]
        if not counts:
            del self.asked[replica]
