"""Who belongs to the fleet, who drains, what is in force: changes by people and configuration.

A change that would change nothing is no event, so asking twice is harmless.
"""

from attrs import evolve

from trioroute.events import Configured, Draining, Event, ReplicaJoined, ReplicaLeft
from trioroute.policy import commands as c
from trioroute.policy.recovery import eject
from trioroute.projections import State


def join(state: State, command: c.Join) -> list[Event]:
    known = state.fleet.replicas.get(command.replica)
    if (
        known is not None
        and known.url == command.url
        and known.engine == command.engine
        and known.told_models == command.models
        and known.source == command.source
    ):
        return []
    joined = ReplicaJoined(
        replica=command.replica,
        url=command.url,
        models=command.models,
        engine=command.engine,
        source=command.source,
        by=command.by,
        why=command.why,
    )
    return [joined]


def leave(state: State, command: c.Leave) -> list[Event]:
    if command.replica not in state.fleet.replicas:
        return []
    return [ReplicaLeft(replica=command.replica, by=command.by, why=command.why)]


def drain(state: State, command: c.Drain) -> list[Event]:
    known = state.fleet.replicas.get(command.replica)
    leaves = command.on and command.leaves
    if known is None or (known.draining == command.on and (known.leaves_by is not None) == leaves):
        return []
    drained = Draining(
        replica=command.replica, on=command.on, leaves=leaves, by=command.by, why=command.why
    )
    return [drained]


def leavers(state: State) -> list[Event]:
    """Who was to leave when nothing runs there any more, and nothing does."""
    return [
        ReplicaLeft(replica=name, by=replica.leaves_by, why="drained")
        for name, replica in state.fleet.replicas.items()
        if replica.leaves_by is not None and not state.load.replicas[name].own
    ]


def eject_by_hand(state: State, command: c.Eject) -> list[Event]:
    """As any eject (RULES 6.7), from LIVE and PROBING only; the wire did nothing, so no cause."""
    health = state.health.get(command.replica)
    if health is None or health.stage not in ("LIVE", "PROBING"):
        return []
    at_ms, by, why = command.at_ms, command.by, command.why
    return [eject(state, command.replica, health, at_ms, "none", by, why)]


def configure(state: State, command: c.Configure) -> list[Event]:
    return [Configured(settings=command.settings)]


def reconfigure(state: State, command: c.Reconfigure) -> list[Event]:
    """What makes the whole configuration true; at a start the settings are said in any case.

    Replicas of other sources stay, but one at an address that the configuration names now.
    """
    events: list[Event] = []
    by, why = command.by, command.why
    if by == "start" or (command.settings, command.digest) != (state.settings, state.file_digest):
        events.append(Configured(settings=command.settings, digest=command.digest, by=by, why=why))
    wanted = {joined.replica: joined.url for joined in command.replicas}
    for name, replica in state.fleet.replicas.items():
        unwanted = replica.source == "config" or replica.url in wanted.values()
        if name not in wanted and unwanted:
            events.append(ReplicaLeft(replica=name, by=by, why=why))
    for joined in command.replicas:
        known = state.fleet.replicas.get(joined.replica)
        if known is not None and known.leaves_by is not None:
            events.append(Draining(replica=joined.replica, on=False, by=by, why=why))
        events += join(state, evolve(joined, by=by, why=why))
    return events
