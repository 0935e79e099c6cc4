"""What would have prevented that a request failed."""

from trioroute.events import Released
from trioroute.projections import State
from trioroute.replay.clock import at_most, span
from trioroute.replay.incident.changed import Change, Proof, length, longer
from trioroute.replay.words import plural

_CANNOT = {
    "upstream_cut": "an answer that has begun cannot be tried elsewhere",
    "upstream_empty": "an answer that has begun cannot be tried elsewhere",
}
MARGIN = 2
"""So many times the latest first byte a shorter limit is, and so many times shorter than before."""

_LATER = "whether the rest would have come then, the log does not tell"


def end_proof(decision: str, event: Released, state: State) -> Proof | None:
    """Of an end by a limit of time, or of one after the first byte; ``state`` is before it."""
    cannot = _CANNOT.get(event.outcome)
    if cannot is not None and event.blame == "replica":
        name = _replica(state, event)
        text = f"no setting of the router prevents that {decision} broke off on {name}"
        return Proof(None, f"{text} ({event.cause}): {cannot}")
    change = _limit(event, state)
    if change is None:
        return None
    if event.blame == "replica":
        return Proof(
            None,
            f"{decision} was ended after {span(event.duration_ms)} by {change.key}={change.now}, "
            f"as {_replica(state, event)} was silent: a longer limit would have let its client "
            f"wait for longer, and {_LATER}",
        )
    return Proof(
        change,
        f"{decision} was ended after {span(event.duration_ms)} by {change.key}={change.now}: with "
        f"{change.words} it would not have run into that limit there; {_LATER}",
    )


def shorter_proof(
    event: Released, times: int, latest_ms: int | None, running: int, state: State
) -> Proof | None:
    """Of a replica that was silent for ``timeouts.first_byte``, as ``times`` requests met it: a
    limit that no good answer of the span came near, all first bytes of which came before
    ``latest_ms``. ``running``: requests that had not ended with the span."""
    if (event.outcome, event.cause, event.blame) != ("first_byte_timeout", "timeout", "replica"):
        return None
    now_ms = state.settings.timeouts.first_byte_ms
    if latest_ms is None or not 0 < now_ms <= event.duration_ms:
        return None
    instead_ms = -(-MARGIN * latest_ms // 1000) * 1000
    if instead_ms * MARGIN > now_ms:
        return None
    change = Change("timeouts.first_byte", length(now_ms), length(instead_ms))
    unknown = f", not counting {plural(running, 'request')} that had not ended by its end"
    return Proof(
        change,
        f"{plural(times, 'client')} would have had to wait {span(instead_ms)} instead of "
        f"{span(now_ms)} for the 504 of a silent replica with {change.words}, and no good answer "
        f"would have been cut off by it: the latest first byte of the span came before "
        f"{at_most(latest_ms)}{unknown if running else ''}",
        lessens=True,
    )


def _limit(event: Released, state: State) -> Change | None:
    """The limit that ended it, and one that it had not reached then."""
    limits, lasted_ms = state.settings.timeouts, event.duration_ms
    if event.cause != "timeout":
        return None
    if event.blame == "router":
        early = event.outcome == "first_byte_timeout"
        both = early and 0 < limits.first_byte_ms <= lasted_ms
        over = 0 < limits.total_ms <= lasted_ms and not both
        return longer("timeouts.total", limits.total_ms, lasted_ms) if over else None
    if event.outcome == "first_byte_timeout":
        over = 0 < limits.first_byte_ms <= lasted_ms
        return longer("timeouts.first_byte", limits.first_byte_ms, lasted_ms) if over else None
    silent_ms = lasted_ms - (event.ttfb_ms or 0)  # at most so long: since its first byte
    idle = event.outcome == "idle_timeout" and 0 < limits.idle_ms <= silent_ms
    if idle and _in_traffic(event, state):
        return longer("timeouts.idle", limits.idle_ms, silent_ms)
    return None


def _in_traffic(event: Released, state: State) -> bool:
    """Whether its replica was never out while it ran: then no grace ended it (RULES 6.13)."""
    flight = state.load.flights.get(event.dispatch)
    health = state.health.get(flight.replica) if flight is not None else None
    if flight is None or health is None:
        return False
    return health.stage == "LIVE" and health.concerns(flight.at_ms)


def _replica(state: State, event: Released) -> str:
    flight = state.load.flights.get(event.dispatch)
    return "its replica" if flight is None else flight.replica
