"""Choosing a replica: the five steps of RULES 4, in order, each leaving what it saw.

The trace a choice leaves is what ``replay`` prints, so the explanation cannot drift from the rule.
Composite scores, consistent hashing and "never rebind" lost: see RULES 1 for what they did.
"""

from typing import Literal

from msgspec import Struct

from trioroute.events.words import DeadPin, PinKind, Reason, SpillCause
from trioroute.policy.candidates import Candidate, look
from trioroute.policy.commands import Arrive
from trioroute.projections import Pin, State
from trioroute.projections.measure import ROUTABLE

Verdict = Literal["chosen", "wait", "unhealthy", "unknown_model", "exhausted"]
"""``wait``: only full replicas (RULES 4.7); ``exhausted``: a retry that has tried them all."""


class PinLook(Struct, gc=False):
    """The pin that step 4 looked at. ``dead`` and ``spill`` say why it was not usable. A struct
    for the same reason as ``Candidate``.
    """

    kind: PinKind
    key: str
    replica: str
    spills: int
    usable: bool
    dead: DeadPin | None
    spill: SpillCause | None
    force: bool
    bound_by: int


class Weighed(Struct, gc=False):
    """What a candidate of ``least-work`` would have to do, in tokens (RULES 9).

    ``damage_m``: what one uncached token costs in thousandths, to this request and to the others.
    ``promised`` was sent before and is not computed yet, ``batch`` stands for the ``present``
    requests, ``expected`` for what the other ``conversations`` there will bring. A struct too.
    """

    name: str
    cached: int
    uncached: int
    damage_m: int
    promised: int
    present: int
    batch: int
    conversations: int
    expected: int
    total: int


class Choice(Struct, gc=False):
    """A decision and the trace of its steps; the tuples keep the pool's order.

    ``weighed`` is of ``least-work`` only, and follows ``no_wait``. A struct too.
    """

    verdict: Verdict
    replica: str | None
    reason: Reason | None
    pool: tuple[Candidate, ...]
    routable: tuple[Candidate, ...] = ()
    no_wait: tuple[Candidate, ...] = ()
    least: Candidate | None = None
    min_running_m: int = 0
    pin: PinLook | None = None
    weighed: tuple[Weighed, ...] = ()

    @property
    def chosen_is_live(self) -> bool:
        """Only a LIVE replica may take a pin (RULES 5.8)."""
        chosen = self.least
        if chosen is None or chosen.name != self.replica:
            chosen = _named(self.pool, self.replica)
        return chosen is not None and chosen.standing == "LIVE"


class Field(Struct, gc=False):
    """What is left of a pool when health and limits had their say; ``free`` is never empty."""

    pool: tuple[Candidate, ...]
    routable: tuple[Candidate, ...]
    free: list[Candidate]


def narrow(state: State, arrive: Arrive) -> Field | Choice:
    """What every policy does first: the pool (step 1), response pins, limits, the fallback.

    A ``Choice`` where that settles it.
    """
    found = look(state, arrive.model, arrive.at_ms, arrive.tried)
    pool = tuple(found)
    if not pool and _never_served(state, arrive.model):
        return Choice("unknown_model", None, None, pool)
    for c in pool:
        if c.standing != "LIVE" or c.tried:
            listed, untried, live = _in_traffic(pool)
            break
    else:  # mostly
        listed = untried = live = found
    if not untried:
        return _fallback(pool, arrive)
    routable = pool if listed is found else tuple(listed)
    response = _response_home(state, arrive, live)
    if response is not None:
        return Choice("chosen", response, "affinity:response", pool, routable)
    # LIVE below its limit; where none is LIVE, PROBING: it is no overflow (RULES 4.7)
    free = [c for c in live or untried if not c.full]
    if not free:
        return Choice("wait", None, None, pool, routable)
    return Field(pool, routable, free)


def _in_traffic(pool: tuple[Candidate, ...]) -> tuple[list[Candidate], ...]:
    """Step 1: who takes new requests; of them, who was not tried; of those, who is LIVE."""
    listed, untried, live = list[Candidate](), list[Candidate](), list[Candidate]()
    for c in pool:  # one loop, here and below: a comprehension for each costs three times as much
        standing = c.standing
        if standing in ROUTABLE:
            listed.append(c)
            if not c.tried:
                untried.append(c)
                if standing == "LIVE":
                    live.append(c)
    return listed, untried, live


def choose(state: State, arrive: Arrive) -> Choice:
    """Take the five steps for one request; reads the state and changes nothing."""
    field = narrow(state, arrive)
    if isinstance(field, Choice):
        return field
    pool, routable = field.pool, field.routable
    no_wait = _no_wait(field.free)
    least, min_running_m = _least_loaded(no_wait, state.load.cursor.get(arrive.model, 0))
    pin = _look_at_pin(state, arrive, pool, min_running_m)
    if pin is not None and pin.usable:
        reason: Reason = "affinity:session" if pin.kind == "session" else "affinity:prefix"
        return Choice(
            "chosen", pin.replica, reason, pool, routable, no_wait, least, min_running_m, pin
        )
    return Choice("chosen", least.name, "load", pool, routable, no_wait, least, min_running_m, pin)


def _never_served(state: State, model: str) -> bool:
    """404 needs certainty: while a replica has not told its models yet, the answer is 503."""
    if model in state.fleet.seen_models:
        return False
    return bool(state.fleet.replicas) and all(r.models for r in state.fleet.replicas.values())


def _no_wait(free: list[Candidate]) -> tuple[Candidate, ...]:
    """Step 2: LIVE without a queue; else all LIVE; else PROBING. ``free`` is of one of the two."""
    return tuple([c for c in free if not c.queueing and c.standing == "LIVE"] or free)


def _least_loaded(candidates: tuple[Candidate, ...], cursor: int) -> tuple[Candidate, int]:
    """Step 3: the minimum of effective_running, of which ties go round; and that of running, which
    step 4 measures a pin's replica by.
    """
    least, tied = candidates[0], 0
    least_m, min_running_m = least.effective_running_m, least.running_m
    for candidate in candidates:
        effective_m = candidate.effective_running_m
        if effective_m < least_m:
            least, least_m, tied = candidate, effective_m, 1
        elif effective_m == least_m:
            tied += 1
        if candidate.running_m < min_running_m:
            min_running_m = candidate.running_m
    if tied > 1:
        least = _in_turn([c for c in candidates if c.effective_running_m == least_m], cursor)
    return least, min_running_m


def _in_turn(tied: list[Candidate], cursor: int) -> Candidate:
    for candidate in tied:
        if candidate.ordinal > cursor:
            return candidate
    return tied[0]


def _fallback(pool: tuple[Candidate, ...], arrive: Arrive) -> Choice:
    """Step 5: nobody routable. The only way a request reaches an EJECTED replica."""
    ejected = [c for c in pool if c.standing == "EJECTED" and not c.tried]
    if ejected:
        name = ejected[arrive.draw % len(ejected)].name
        return Choice("chosen", name, "fallback", pool)
    return Choice("exhausted" if arrive.tried else "unhealthy", None, None, pool)


def _response_home(state: State, arrive: Arrive, live: list[Candidate]) -> str | None:
    """RULES 5.11: only the replica that made a response can continue it."""
    if arrive.response is None:
        return None
    held = state.pins.response.get(arrive.response)
    if held is None or arrive.at_ms - held.at_ms >= state.settings.pins.session_ttl_ms:
        return None
    return held.replica if any(one.name == held.replica for one in live) else None


def _look_at_pin(
    state: State, arrive: Arrive, pool: tuple[Candidate, ...], min_running_m: int
) -> PinLook | None:
    """Step 4: the session's pin first; only when the session has none, the prefix's."""
    at_ms = arrive.at_ms
    if arrive.session is not None:
        pin = state.pins.session.get(arrive.session)
        if pin is not None and not session_expired(state, pin, at_ms):
            return _judge(state, arrive, "session", arrive.session, pin, pool, min_running_m)
    if arrive.prefix is not None:
        pin = state.pins.prefix.get(arrive.prefix)
        if pin is not None and not prefix_expired(state, pin, at_ms):
            return _judge(state, arrive, "prefix", arrive.prefix, pin, pool, min_running_m)
    return None


def session_expired(state: State, pin: Pin, at_ms: int) -> bool:
    """RULES 5.3: idle for the whole time; a running request counts as use."""
    return not pin.running and at_ms - pin.used_ms >= state.settings.pins.session_ttl_ms


def prefix_expired(state: State, pin: Pin, at_ms: int) -> bool:
    """RULES 5.3: counted from binding, however often it was used."""
    return at_ms - pin.bound_ms >= state.settings.pins.prefix_ttl_ms


def _judge(
    state: State,
    arrive: Arrive,
    kind: PinKind,
    key: str,
    pin: Pin,
    pool: tuple[Candidate, ...],
    min_running_m: int,
) -> PinLook:
    home = _named(pool, pin.replica)
    slack = state.settings.policy.slack
    allowed = slack.session if kind == "session" else slack.prefix
    dead = _dead(state, pin, home)
    spill: SpillCause | None = None
    force = False
    if dead is None and home is not None:
        spill = _spill_cause(home, min_running_m + allowed * 1000)
        if spill is not None:
            gap_m = max(state.settings.pins.force_rebind, allowed + 2) * 1000
            force = home.running_m - min_running_m >= gap_m  # RULES 5.6
    usable = dead is None and spill is None
    return PinLook(kind, key, pin.replica, pin.spills, usable, dead, spill, force, pin.bound_by)


def _named(pool: tuple[Candidate, ...], replica: str | None) -> Candidate | None:
    for candidate in pool:
        if candidate.name == replica:
            return candidate
    return None


_DEAD: dict[str, DeadPin] = {
    "EJECTED": "ejected",
    "PROBING": "probing",
    "DRAINING": "draining",
    "JOINING": "joining",
}


def _dead(state: State, pin: Pin, home: Candidate | None) -> DeadPin | None:
    """RULES 5.8: a pin whose replica is out of traffic blocks nothing.

    An eject ends a pin at once, though the pin's next request tells so: the cache it stood for is
    gone, and a replica that comes back must not find its old pins waiting.
    """
    if home is None:
        return "gone"
    health = state.health[home.name]
    if home.standing == "LIVE":
        return "ejected" if health.outlived(pin.bound_ms) else None
    if home.standing == "JOINING" and health.asleep:
        return "asleep"
    return _DEAD[home.standing]


def _spill_cause(home: Candidate, limit_m: int) -> SpillCause | None:
    if home.tried:
        return "tried"
    if home.full:
        return "full"
    if home.queueing == "queue":
        return "queue"
    if home.queueing == "busy":
        return "busy"
    if home.queueing == "stalled":
        return "stalled"
    return "running" if home.running_m > limit_m else None
