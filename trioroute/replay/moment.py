"""The state at a moment of the past."""

from itertools import islice

import attrs

from trioroute.projections import State
from trioroute.projections.state import imbalance_now_m
from trioroute.replay.clock import local_iso
from trioroute.replay.explain import seen_at
from trioroute.replay.log_end import log_end
from trioroute.replay.read import NotFound, Past, Source, decision_name, router_of
from trioroute.replay.stood import stood_at
from trioroute.replay.told import FlightSeen, Moment

OLDEST_FLIGHTS = 20


def tell_moment(source: Source, at_ms: int) -> list[Moment]:
    """Every router of the log as it was at ``at_ms``: after its last event that is not later.

    Where a restart set the clock back, that is the last row with such a time. A time past the end
    shows the end. Raises NotFound for a time before the first event, CannotRead.
    """
    end, asked_ms = source.last(), at_ms
    at_ms = min(at_ms, end.at_ms)
    until = source.reader.last_until(at_ms)
    if until == 0:
        begins = local_iso(next(source.records()).at_ms)
        raise NotFound(f"nothing is known of {local_iso(at_ms)}: the log begins at {begins}")
    fold = source.fold_before(until + 1)
    pasts = {stream: Past(stream, state) for stream, state in fold.states.items()}
    source.fold_rows(pasts, fold.head.seq, until)
    moments = list[Moment]()
    for stream, past in pasts.items():
        position = past.state.position
        down = _down(source, stream, position, asked_ms)
        stood = stood_at(source, stream, position, at_ms) if down is None else None
        moments.append(attrs.evolve(_moment(stream, past.state, at_ms, down), stood=stood))
    return moments


def _down(source: Source, stream: str, position: int, at_ms: int) -> str | None:
    """Why no router ran at ``at_ms``, behind row ``position`` of its stream; None: it may have."""
    last, then = source.at(stream, position), source.at(stream, position + 1)
    if last is None:
        return None
    started = None if then is None or then.kind != "Started" else local_iso(then.at_ms)
    if last.kind == "Stopped":
        again = "did not start again in this log" if started is None else f"started {started}"
        return f"no router ran then: it stopped {local_iso(last.at_ms)} and {again}"
    if at_ms <= last.at_ms:
        return None
    if started is not None and last.kind == "Gap":
        return (
            f"no row is of that time: the log could not be written until {local_iso(last.at_ms)}, "
            f"and the router started {started}"
        )
    if started is not None:
        return (
            f"no row is of that time: the router died at or after {local_iso(last.at_ms)} and "
            f"started {started}"
        )
    gone = log_end(source) if then is None else None
    if gone is None or not gone.died or gone.last.stream != stream:
        return None
    return f"no router ran now or lately: it died at or after {gone.at} and did not start again"


def _moment(stream: str, state: State, at_ms: int, down: str | None) -> Moment:
    at_ms = max(at_ms, state.at_ms)
    flights = state.load.flights
    return Moment(
        router=router_of(stream),
        position=state.position,
        at_ms=at_ms,
        at=local_iso(at_ms),
        replicas=tuple(seen_at(state, name, at_ms) for name in state.fleet.replicas),
        session_pins=len(state.pins.session),
        prefix_pins=len(state.pins.prefix),
        in_flight=len(flights),
        oldest=tuple(
            FlightSeen(
                decision=decision_name(stream, number),
                request_id=flight.request_id,
                model=flight.model,
                replica=flight.replica,
                weight_m=flight.weight_m,
                age_ms=at_ms - flight.at_ms,
            )
            for number, flight in islice(flights.items(), OLDEST_FLIGHTS)
        ),
        imbalance_m=imbalance_now_m(state, at_ms),
        down=down,
    )
