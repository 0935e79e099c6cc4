"""The states of the replicas over time, one lane each."""

import attrs

from trioroute.projections import State
from trioroute.projections.measure import ROUTABLE
from trioroute.replay.incident.told import Lane

LANES_MAX = 5000
"""Stretches of all lanes together; a fleet that flaps for days has more, and they are left out."""


DOWN = "ROUTER DOWN"
"""The state of every replica while no router was there."""


def lane_state(state: State, name: str) -> str:
    """The state word of a replica (RULES 2), or ASLEEP, which is a JOINING of its own (6.11), or
    STALLED, which is in traffic (6.10)."""
    standing = state.standing(name)
    health = state.health[name]
    if standing in ROUTABLE and health.stalled(state.at_ms, state.settings):
        return "STALLED"
    return "ASLEEP" if standing == "JOINING" and health.asleep else standing


@attrs.define
class Lanes:
    """``open`` holds by replica its state and since when it is in it; ``order`` is that in which
    they joined, which is the configuration's."""

    done: list[Lane] = attrs.field(factory=list)
    open: dict[str, tuple[str, int]] = attrs.field(factory=dict)
    order: dict[str, None] = attrs.field(factory=dict)

    def look(self, state: State, at_ms: int) -> None:
        for name in [name for name in self.open if name not in state.fleet.replicas]:
            self._close(name, at_ms)
        for name in state.fleet.replicas:
            self.order.setdefault(name)
            word = lane_state(state, name)
            if self.open.get(name, ("", 0))[0] != word:
                self._close(name, at_ms)
                self.open[name] = (word, at_ms)

    def down(self, from_ms: int, to_ms: int) -> None:
        """No router was there to see anything."""
        names = list(self.open)
        for name in names:
            self._close(name, from_ms)
            if to_ms > from_ms and len(self.done) < LANES_MAX:
                self.done.append(Lane(replica=name, state=DOWN, from_ms=from_ms, to_ms=to_ms))

    def finish(self, to_ms: int) -> list[Lane]:
        for name in list(self.open):
            self._close(name, to_ms)
        places = {name: place for place, name in enumerate(self.order)}
        return sorted(self.done, key=lambda lane: (places[lane.replica], lane.from_ms))

    def _close(self, name: str, at_ms: int) -> None:
        word, since_ms = self.open.pop(name, ("", at_ms))
        if word and at_ms > since_ms and len(self.done) < LANES_MAX:
            self.done.append(Lane(replica=name, state=word, from_ms=since_ms, to_ms=at_ms))
