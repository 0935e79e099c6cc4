"""What would have kept a request at its pin: its decision, taken again (RULES 4 step 4, 5)."""

from collections.abc import Iterable

from trioroute.events import Dispatched, Event, Rebound, Spilled, Unbound
from trioroute.policy.commands import Arrive
from trioroute.policy.decide import arrive_of, decide
from trioroute.projections import State
from trioroute.replay.clock import span
from trioroute.replay.incident.changed import Change, Proof, first_that, raised
from trioroute.replay.incident.harm import Kind
from trioroute.replay.words import SPILLS

_ROWS: dict[str, type[Spilled | Rebound | Unbound]] = {
    "Spilled": Spilled,
    "Rebound": Rebound,
    "Unbound": Unbound,
}


def pin_proof(place: str, at_ms: int, event: Dispatched, kind: Kind, state: State) -> Proof | None:
    """``event`` is the decision at ``place``, ``state`` that of just before it."""
    _, what, pin, cause = kind
    arrive = arrive_of(event, at_ms, state)
    was = decide(state, arrive)
    if not was or was[0] != event or not _has(was, what, pin, cause):
        return None
    if cause == "stalled":
        return _stalled(place, arrive, event, kind, state)
    change = first_that(
        state,
        arrive,
        _changes(state, kind),
        lambda now: not _has(now, what, pin),
    )
    if change is None:
        return None
    return Proof(change, f"{place} {_words(kind)}: with {change.words} {_then(what)}")


def _stalled(
    place: str, arrive: Arrive, event: Dispatched, kind: Kind, state: State
) -> Proof | None:
    """No longer ``eject.stall_after`` is proposed: what it keeps there waits for an engine that
    stands still, as with a replica that is really down."""
    health = state.health.get(event.home or "")
    if health is None:
        return None
    still = span(arrive.at_ms - health.moved_ms)
    return Proof(
        None,
        f"{place} {_words(kind)}, for {still} then: rightly, for a longer eject.stall_after would "
        "only have sent it to an engine that stood still",
    )


def _has(events: list[Event], what: str, pin: str, cause: str | None = None) -> bool:
    return any(
        isinstance(event, Spilled | Rebound | Unbound)
        and type(event) is _ROWS[what]
        and event.kind == pin
        and cause in (None, event.cause)
        for event in events
    )


def _changes(state: State, kind: Kind) -> Iterable[Change]:
    settings = state.settings
    match kind[1:]:
        case ("Spilled", "session", "running"):
            return raised("policy.slack.session", settings.policy.slack.session)
        case ("Spilled", "prefix", "running"):
            return raised("policy.slack.prefix", settings.policy.slack.prefix)
        case ("Spilled", _, "full"):
            return raised("admission.max_in_flight", settings.admission.max_in_flight)
        case ("Rebound", _, "spills"):
            return raised("pins.spills_to_rebind", settings.pins.spills_to_rebind)
        case ("Rebound", _, "force"):
            return raised("pins.force_rebind", settings.pins.force_rebind)
        case ("Unbound", "prefix", "spills"):
            return raised("pins.prefix_spills_to_drop", settings.pins.prefix_spills_to_drop)
        case _:
            return ()


def _words(kind: Kind) -> str:
    _, what, pin, cause = kind
    if what == "Spilled":
        return f"did not use its {pin} pin: {SPILLS[cause]}"
    if what == "Unbound":
        return f"removed its {pin} pin for nothing but spills in a row (RULES 5.7)"
    if cause == "spills":
        return f"moved its {pin} pin for nothing but spills in a row (RULES 5.5)"
    return f"moved its {pin} pin only as far more ran there than elsewhere (RULES 5.6)"


def _then(what: str) -> str:
    return "it would have" if what == "Spilled" else "it would have stayed then"
