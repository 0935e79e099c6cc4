"""When replicas become stalled and when they go on (RULES 6.10), as the state tells it.

One judgement for all who tell of it: ``Health.stalled``, which the metric shows and step 2 asks.
"""

import attrs

from trioroute.projections.state import State


@attrs.frozen
class Stall:
    """``since_ms``: since when no token came. ``over``: it is stalled no more, and ``idle`` if that
    is because it runs nothing any more."""

    replica: str
    since_ms: int
    at_ms: int
    running: int = 0
    over: bool = False
    idle: bool = False

    def words(self) -> str:
        """In words, without the name."""
        still_s = (self.at_ms - self.since_ms) // 1000
        if not self.over:
            return (
                f"stalled: its engine says {self.running} running, and no token came for "
                f"{still_s} s; new requests pass it over (RULES 6.10)"
            )
        how = "it runs nothing any more" if self.idle else "it generates tokens again"
        return f"stalled no more: {how}, after {still_s} s without a token"


@attrs.define
class Stalls:
    """``since_ms`` holds, by replica that is stalled, since when no token came."""

    since_ms: dict[str, int] = attrs.field(factory=dict)

    def look(self, state: State) -> list[Stall]:
        """What changed since the last look. Only scrapes, the fleet and settings change it."""
        found = list[Stall]()
        for name, health in state.health.items():
            stalled = health.stalled(state.at_ms, state.settings)
            if stalled == (name in self.since_ms):
                continue
            if stalled:
                self.since_ms[name] = health.moved_ms
                last = state.load.of(name).last
                running = (last.running if last is not None else None) or 0
                found.append(Stall(name, health.moved_ms, state.at_ms, running))
            else:
                since_ms, idle = self.since_ms.pop(name), not health.running
                found.append(Stall(name, since_ms, state.at_ms, 0, True, idle))
        for name in [name for name in self.since_ms if name not in state.health]:
            del self.since_ms[name]
        return found
