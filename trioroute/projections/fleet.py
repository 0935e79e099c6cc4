"""Who is in the fleet, and which replicas serve which model."""

import attrs

from trioroute.events import Draining, ReplicaJoined, ReplicaLeft, Scraped
from trioroute.events.words import ChangedBy, Source

SEEN_MODELS_MAX = 10_000
"""Bound of the memory of models that were served once (404 against 503, HTTP.md)."""


@attrs.define(slots=True)
class Replica:
    """``ordinal`` counts joins and never changes: it is the order in which ties go round.

    ``told_models`` are those of the configuration; empty: asked from it. ``leaves_by`` is who wants
    it out of the fleet as soon as nothing runs there.
    """

    name: str
    url: str
    models: tuple[str, ...]
    engine: str
    ordinal: int
    told_models: tuple[str, ...] = ()
    source: Source = "config"
    draining: bool = False
    leaves_by: ChangedBy | None = None


@attrs.define(slots=True)
class Fleet:
    """``pools`` maps a model to its replicas in order of ordinal; derived, never logged."""

    replicas: dict[str, Replica] = attrs.field(factory=dict)
    joins: int = 0
    pools: dict[str, tuple[Replica, ...]] = attrs.field(factory=dict)
    seen_models: dict[str, None] = attrs.field(factory=dict)

    def pool(self, model: str) -> tuple[Replica, ...]:
        """The replicas that serve ``model``; empty if none does now."""
        return self.pools.get(model, ())

    def only_model(self) -> str | None:
        """The model of a request that names none: there must be one pool (HTTP.md).

        Several names for the same set of replicas are one pool (a base model and its adapters).
        """
        pools = list(self.pools.items())
        if pools and all(members == pools[0][1] for _, members in pools):
            return pools[0][0]
        return None


def join(fleet: Fleet, event: ReplicaJoined) -> None:
    known = fleet.replicas.get(event.replica)
    if known is None:
        fleet.joins += 1
        known = fleet.replicas[event.replica] = Replica(
            event.replica, event.url, event.models, event.engine, fleet.joins
        )
    elif event.models or known.url != event.url:
        known.models = event.models
    known.url = event.url
    known.engine = event.engine
    known.told_models = event.models
    known.source = event.source
    regroup(fleet)


def leave(fleet: Fleet, event: ReplicaLeft) -> None:
    fleet.replicas.pop(event.replica, None)
    regroup(fleet)


def drain(fleet: Fleet, event: Draining) -> None:
    known = fleet.replicas.get(event.replica)
    if known is not None:
        known.draining = event.on
        known.leaves_by = event.by if event.on and event.leaves else None


def learn_models(fleet: Fleet, event: Scraped) -> None:
    changed = False
    for name, reading in event.readings.items():
        replica = fleet.replicas.get(name)
        if replica is not None and reading.models is not None:
            replica.models = reading.models
            changed = True
    if changed:
        regroup(fleet)


def regroup(fleet: Fleet) -> None:
    """Make the pools anew from what each replica serves."""
    pools: dict[str, list[Replica]] = {}
    for replica in sorted(fleet.replicas.values(), key=_ordinal):
        for model in replica.models:
            pools.setdefault(model, []).append(replica)
    fleet.pools = {model: tuple(members) for model, members in pools.items()}
    for model in fleet.pools:
        if len(fleet.seen_models) < SEEN_MODELS_MAX:
            fleet.seen_models[model] = None


def _ordinal(replica: Replica) -> int:
    return replica.ordinal
