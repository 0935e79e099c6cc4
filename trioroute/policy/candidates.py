"""The replicas of a pool as a decision sees them."""

import attrs

from trioroute.events.words import ReplicaState
from trioroute.projections import Replica, State
from trioroute.projections.measure import measure, standing


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


def look(state: State, replica: Replica, at_ms: int, tried: tuple[str, ...]) -> Candidate:
    name = replica.name
    health = state.health[name]
    word = standing(replica, health)
    known = state.load.replicas[name]
    load = measure(known, at_ms, state.settings)
    own = known.own
    if load.effective_waiting_m > 0:
        queueing = "queue"
    elif health.busy_until_ms > at_ms:
        queueing = "busy"  # RULES 6.2: 429 and 503 count as a queue
    elif health.stalled(at_ms, state.settings):
        queueing = "stalled"  # RULES 6.10
    else:
        queueing = ""
    return Candidate(
        name,
        replica.ordinal,
        word,
        load.running_m,
        load.waiting_m,
        load.effective_running_m,
        load.effective_waiting_m,
        own,
        load.stale,
        queueing,
        _full(state, word, own),
        name in tried,
    )


def _full(state: State, word: ReplicaState, own: int) -> bool:
    limit = state.settings.admission.max_in_flight
    if word == "PROBING":  # RULES 4.7
        probing = state.settings.probing.max_in_flight
        limit = min(limit, probing) if limit else probing
    return bool(limit) and own >= limit
