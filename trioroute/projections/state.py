"""The whole state, and what it says of itself."""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from trioroute import events as e
from trioroute.projections.fleet import Fleet
from trioroute.projections.health import Departed, HealthTable
from trioroute.projections.load import Load, ReplicaLoad
from trioroute.projections.measure import ROUTABLE, Measured, measure, standing
from trioroute.projections.pins import Pins
from trioroute.projections.prompts import Prompts
from trioroute.projections.tally import Tally

OTHER_MODEL = "other"
"""Label of every model that no replica ever served: made-up names make no new series."""


@attrs.define(slots=True)
class Looked:
    """What ``policy.candidates`` saw of replicas last, by name, so that it need not look again.

    No part of the state, for it follows from it: it is so while ``since_ms <= at_ms < until_ms``,
    and ``apply`` forgets what an event touches. A state that is made of another one, with other
    settings say, begins with none.
    """

    seen: dict[str, Any] = attrs.field(factory=dict)
    since_ms: int = 0
    until_ms: int = 0


@attrs.define(slots=True)
class State:
    """``position`` is the version of the last event folded, ``at_ms`` its time.

    ``file_digest`` names the file that ``settings`` came from, applied at ``configured_ms``.
    """

    router: str = ""
    rules: int = 0
    settings: e.InForce = attrs.field(factory=e.InForce)
    file_digest: str = ""
    configured_ms: int = 0
    position: int = 0
    at_ms: int = 0
    checked_at: int = 0
    checked_ms: int = 0
    fleet: Fleet = attrs.field(factory=Fleet)
    health: HealthTable = attrs.field(factory=dict)
    departed: dict[str, Departed] = attrs.field(factory=dict)
    load: Load = attrs.field(factory=Load)
    pins: Pins = attrs.field(factory=Pins)
    prompts: Prompts = attrs.field(factory=Prompts)
    tally: Tally = attrs.field(factory=Tally)
    looked: Looked = attrs.field(factory=Looked, init=False, eq=False, repr=False)

    def standing(self, name: str) -> str:
        """The state word of a known replica (RULES 2)."""
        return standing(self.fleet.replicas[name], self.health[name])

    def standings(self) -> list[str]:
        """The state word of every replica, in the order they joined."""
        return [self.standing(name) for name in self.fleet.replicas]

    def anyone_routable(self) -> bool:
        """Whether some replica takes new requests (RULES 4, step 1)."""
        return any(word in ROUTABLE for word in self.standings())

    def unserved(self) -> Iterator[str]:
        """The models that replicas of the fleet list and that none of them serves now."""
        up = {name for name in self.fleet.replicas if self.standing(name) in ROUTABLE}
        for model, members in self.fleet.pools.items():
            if not any(one.name in up for one in members):
                yield model

    def measure(self, name: str, at_ms: int) -> Measured:
        known = self.load.replicas.get(name)
        return measure(known if known is not None else ReplicaLoad(), at_ms, self.settings)

    def model_label(self, model: str | None) -> str:
        return model if model is not None and model in self.fleet.seen_models else OTHER_MODEL


def imbalance_now_m(state: State, at_ms: int) -> int:
    """The largest of the pools' imbalances, in thousandths (RULES 7: all rules hold per pool)."""
    loads_m = {
        name: state.measure(name, at_ms).effective_running_m
        for name in state.fleet.replicas
        if state.standing(name) == "LIVE"
    }
    largest_m, last = 0, None
    for members in state.fleet.pools.values():
        if members != last:  # a base model and its adapters stand side by side
            of_pool = {one.name: loads_m[one.name] for one in members if one.name in loads_m}
            largest_m, last = max(largest_m, pool_imbalance_m(of_pool)), members
    return largest_m


def pool_imbalance_m(loads_m: Mapping[str, int]) -> int:
    """(max - min) of the effective_running of a pool's LIVE replicas; 0 without any."""
    return max(loads_m.values()) - min(loads_m.values()) if loads_m else 0
