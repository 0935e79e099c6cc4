"""The replicas of a pool as a decision sees them."""

import attrs

from trioroute.events.sections import InForce
from trioroute.events.words import ReplicaState
from trioroute.projections import State
from trioroute.projections.measure import loads, stale_ms, standing


@attrs.define
class Candidate:
    """One replica with everything the five steps ask of it, loads in thousandths.

    Nobody changes one; it is not frozen because a frozen one costs four times as much to make, and
    a decision makes one per replica.

    ``queueing`` names why step 2 passes it over (``queue``, ``busy``, ``stalled``), ``""`` if it
    does not; ``full``: at its limit of requests in flight, so it cannot be chosen at all.
    """

    name: str
    ordinal: int
    standing: ReplicaState
    running_m: int
    waiting_m: int
    effective_running_m: int
    effective_waiting_m: int
    own: int
    stale: bool
    queueing: str
    full: bool
    tried: bool


def look(state: State, model: str, at_ms: int, tried: tuple[str, ...]) -> list[Candidate]:
    """The pool of ``model``, in its order. What holds for all of it is looked up once."""
    settings = state.settings
    health_of, load_of = state.health, state.load.replicas
    fresh_ms, literal = stale_ms(settings), settings.policy.load == "literal"
    limit, probing_limit = _limits(settings)
    found = []
    for replica in state.fleet.pool(model):
        name = replica.name
        health, load = health_of[name], load_of[name]
        word = standing(replica, health)
        running_m, waiting_m, effective_m, effective_waiting_m, stale = loads(
            load, at_ms, fresh_ms, literal
        )
        if effective_waiting_m > 0:
            queueing = "queue"
        elif health.busy_until_ms > at_ms:
            queueing = "busy"  # RULES 6.2: 429 and 503 count as a queue
        elif health.stalled(at_ms, settings):
            queueing = "stalled"  # RULES 6.10
        else:
            queueing = ""
        own = load.own
        most = probing_limit if word == "PROBING" else limit
        found.append(
            Candidate(
                name,
                replica.ordinal,
                word,
                running_m,
                waiting_m,
                effective_m,
                effective_waiting_m,
                own,
                stale,
                queueing,
                0 < most <= own,
                name in tried,
            )
        )
    return found


def _limits(settings: InForce) -> tuple[int, int]:
    """In flight, for replicas in traffic and for PROBING ones (RULES 4.7); 0: no limit."""
    limit, probing = settings.admission.max_in_flight, settings.probing.max_in_flight
    return limit, min(limit, probing) if limit else probing
