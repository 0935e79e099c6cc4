"""The replicas of a pool as a decision sees them."""

import attrs
from msgspec import Struct
from msgspec.structs import replace

from trioroute.events.sections import InForce
from trioroute.events.words import ReplicaState
from trioroute.projections import Replica, State
from trioroute.projections.measure import loads, stale_ms, standing


class Candidate(Struct, gc=False):
    """One replica with everything the five steps ask of it, loads in thousandths.

    Nobody changes one. A struct, because a decision makes one for a replica or two, and an attrs
    class takes twice as long.

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
    """The pool of ``model``, in its order.

    Between two decisions few replicas change, so what was seen of one is kept until then
    (``Looked``): a decision costs little more among fifty replicas than among five.
    """
    looked = state.looked
    if not looked.since_ms <= at_ms < looked.until_ms:
        looked.seen.clear()
        looked.since_ms, looked.until_ms = at_ms, _FOREVER_MS
    seen = looked.seen
    found: list[Candidate] = []
    for replica in state.fleet.pool(model):
        candidate = seen.get(replica.name)
        if candidate is None:
            candidate = _look_at(state, replica, at_ms)
        found.append(candidate)
    if tried:
        return [replace(c, tried=True) if c.name in tried else c for c in found]
    return found


def under(state: State, settings: InForce) -> State:
    """The state as it would be under other settings, to decide from now: it shares all else, also
    what was seen of replicas where these settings show the same."""
    other = attrs.evolve(state, settings=settings)
    if _seen_through(settings) == _seen_through(state.settings):
        other.looked = state.looked
    return other


def _seen_through(settings: InForce) -> tuple[object, ...]:
    """What ``_look_at`` asks of the settings, and some more."""
    load = settings.policy.load
    return load, settings.scrape, settings.eject, settings.admission, settings.probing


_FOREVER_MS = 1 << 62


def _look_at(state: State, replica: Replica, at_ms: int) -> Candidate:
    """A candidate that no request tried yet, kept until time alone may make it another one."""
    settings, name = state.settings, replica.name
    health, load = state.health[name], state.load.replicas[name]
    fresh_ms, stall_ms = stale_ms(settings), settings.eject.stall_after_ms
    word = standing(replica, health)
    running_m, waiting_m, effective_m, effective_waiting_m, stale = loads(
        load, at_ms, fresh_ms, settings.policy.load == "literal"
    )
    if effective_waiting_m > 0:
        queueing = "queue"
    elif health.busy_until_ms > at_ms:
        queueing = "busy"  # RULES 6.2: 429 and 503 count as a queue
    elif health.stalled(at_ms, settings):
        queueing = "stalled"  # RULES 6.10
    else:
        queueing = ""
    own, most = load.own, _limit(settings, word)
    candidate = Candidate(
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
        False,
    )
    turns = (health.busy_until_ms, health.moved_ms + stall_ms, load.read_at_ms + fresh_ms + 1)
    looked = state.looked
    looked.seen[name] = candidate
    looked.since_ms = at_ms
    for turn_ms in turns:
        if at_ms < turn_ms < looked.until_ms:
            looked.until_ms = turn_ms
    return candidate


def _limit(settings: InForce, word: ReplicaState) -> int:
    """In flight, for replicas in traffic and for PROBING ones (RULES 4.7); 0: no limit."""
    limit, probing = settings.admission.max_in_flight, settings.probing.max_in_flight
    if word != "PROBING":
        return limit
    return min(limit, probing) if limit else probing
