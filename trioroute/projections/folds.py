"""The one fold: ``apply(state, version, at_ms, event)``."""

from collections.abc import Callable
from typing import Any

import attrs

from trioroute import events as e
from trioroute.projections import fleet, health, load, pins, prompts, tally
from trioroute.projections.freeze import thaw
from trioroute.projections.load import Flight
from trioroute.projections.state import State, imbalance_now_m


def apply(state: State, version: int, at_ms: int, event: e.Event) -> None:
    """Fold one event. Total: it never raises on an event that ``decide`` or a log produced."""
    _FOLDS[type(event)](state, version, at_ms, event)
    state.position = version
    state.at_ms = at_ms


def _started(state: State, version: int, at_ms: int, event: e.Started) -> None:
    state.router = event.router
    state.rules = event.rules
    if event.behind_ms:
        health.step_back(state.health, state.departed, at_ms, event.behind_ms)
        state.prompts.conversations.step_back(at_ms)
    health.restart(state.health, at_ms, state.settings)
    pins.restart(state.pins, at_ms)
    prompts.restart(state.prompts, at_ms)
    tally.restart(state.tally, at_ms)
    for known in state.load.replicas.values():
        known.read_at_ms = min(known.read_at_ms, at_ms)
    state.checked_at, state.checked_ms = version, at_ms


def _configured(state: State, version: int, at_ms: int, event: e.Configured) -> None:
    state.settings = event.settings
    state.file_digest = event.digest
    state.configured_ms = at_ms


def _orphaned(state: State, version: int, at_ms: int, event: e.Orphaned) -> None:
    for number in event.dispatches:
        flight = _land(state, at_ms, number)
        if flight is not None:
            tally.orphan(state.tally, flight)


def _nothing(state: State, version: int, at_ms: int, event: e.Event) -> None:
    pass


def _checked(state: State, version: int, at_ms: int, event: e.Checked) -> None:
    state.checked_at, state.checked_ms = version, at_ms


def _gap(state: State, version: int, at_ms: int, event: e.Gap) -> None:
    """What is not in the log is told as a whole: the state as it was when the store came back."""
    if event.state is not None:
        restated = thaw(event.state)
        for field in attrs.fields(State):
            setattr(state, field.name, getattr(restated, field.name))


def _joined(state: State, version: int, at_ms: int, event: e.ReplicaJoined) -> None:
    known = state.fleet.replicas.get(event.replica)
    same_address = known is not None and known.url == event.url
    fleet.join(state.fleet, event)
    health.join(state.health, at_ms, event, same_address, state.departed, state.settings)
    own = state.load.of(event.replica)
    if not same_address:
        own.read_at_ms, own.last = 0, None
        prompts.forget(state.prompts, event.replica)


def _left(state: State, version: int, at_ms: int, event: e.ReplicaLeft) -> None:
    known = state.fleet.replicas.get(event.replica)
    fleet.leave(state.fleet, event)
    if known is not None:
        name, url = event.replica, known.url
        health.leave(state.health, at_ms, name, url, state.departed, state.settings)
    load.leave(state.load, event)
    prompts.forget(state.prompts, event.replica)


def _draining(state: State, version: int, at_ms: int, event: e.Draining) -> None:
    fleet.drain(state.fleet, event)


def _scraped(state: State, version: int, at_ms: int, event: e.Scraped) -> None:
    fleet.learn_models(state.fleet, event)
    health.read(state.health, at_ms, event)
    load.read(state.load, at_ms, event)
    for name, reading in event.readings.items():
        if reading.asleep:
            prompts.forget(state.prompts, name)
    tally.read(state.tally, event)
    tally.sample_imbalance(state.tally, at_ms, imbalance_now_m(state, at_ms))


def _scrape_failed(state: State, version: int, at_ms: int, event: e.ScrapeFailed) -> None:
    health.scrape_failed(state.health, event)
    tally.scrape_failed(state.tally, event.replica)


def _dispatched(state: State, version: int, at_ms: int, event: e.Dispatched) -> None:
    state.looked.seen.pop(event.replica, None)
    replica = state.fleet.replicas.get(event.replica)
    load.dispatch(state.load, version, at_ms, event, replica.ordinal if replica else None)
    pins.dispatch(state.pins, at_ms, event)
    if event.policy == prompts.POLICY:
        configured_m = state.settings.wlc.bytes_per_token_m
        bytes_per_token_m = state.load.bytes_per_token_m(event.model, configured_m)
        cache_tokens = state.load.of(event.replica).cache_tokens
        prompts.dispatch(state.prompts, version, at_ms, event, bytes_per_token_m, cache_tokens)
    tally.dispatch(state.tally, at_ms, event)


def _land(state: State, at_ms: int, number: int, event: e.Released | None = None) -> Flight | None:
    flight = load.land(state.load, number, state.fleet.replicas)
    if flight is not None:
        state.looked.seen.pop(flight.replica, None)
        if flight.session is not None:
            pins.land(state.pins, at_ms, flight.session)
        if state.prompts.promises:
            prompts.land(state.prompts, number, flight.replica, at_ms, event)
    return flight


def _failed(state: State, version: int, at_ms: int, event: e.Failed) -> None:
    flight = _land(state, at_ms, event.dispatch)
    if flight is not None:
        answered = event.status is not None
        health.ended(state.health, at_ms, flight, event, answered=answered)
        tally.fail(state.tally, event)


def _released(state: State, version: int, at_ms: int, event: e.Released) -> None:
    flight = _land(state, at_ms, event.dispatch, event)
    if flight is None:
        return
    answered = event.outcome in ("ok", "client_error")
    health.ended(state.health, at_ms, flight, event, answered=answered)
    load.release(state.load, event, flight)
    tally.release(state.tally, event, flight)
    if event.response is not None:
        keys = state.settings.pins
        pins.hold(state.pins, at_ms, event.response, flight.replica, keys.max, keys.session_ttl_ms)


def _refused(state: State, version: int, at_ms: int, event: e.Refused) -> None:
    tally.refuse(state.tally, state.model_label(event.model))


def _bound(state: State, version: int, at_ms: int, event: e.Bound) -> None:
    pins.bind(state.pins, at_ms, event)


def _spilled(state: State, version: int, at_ms: int, event: e.Spilled) -> None:
    pins.spill(state.pins, event)
    tally.spill(state.tally, event)


def _rebound(state: State, version: int, at_ms: int, event: e.Rebound) -> None:
    pins.rebind(state.pins, at_ms, event)
    tally.rebind(state.tally, event)


def _unbound(state: State, version: int, at_ms: int, event: e.Unbound) -> None:
    pins.unbind(state.pins, event)


def _ejected(state: State, version: int, at_ms: int, event: e.Ejected) -> None:
    health.eject(state.health, at_ms, event)
    prompts.forget(state.prompts, event.replica)
    tally.eject(state.tally, event)


def _probing(state: State, version: int, at_ms: int, event: e.Probing) -> None:
    health.probe(state.health, at_ms, event)


def _live(state: State, version: int, at_ms: int, event: e.Live) -> None:
    health.live(state.health, at_ms, event)


_Fold = Callable[[State, int, int, Any], None]
_ON_REQUESTS: dict[type, _Fold] = {
    e.Dispatched: _dispatched,
    e.Failed: _failed,
    e.Released: _released,
    e.Refused: _refused,
    e.Bound: _bound,
    e.Spilled: _spilled,
    e.Rebound: _rebound,
    e.Unbound: _unbound,
}
"""They touch one replica at most, and say so themselves (``Looked``)."""

_ON_THE_FLEET: dict[type, _Fold] = {
    e.Started: _started,
    e.Configured: _configured,
    e.Orphaned: _orphaned,
    e.Stopped: _nothing,
    e.Checked: _checked,
    e.StoodStill: _nothing,
    e.Gap: _gap,
    e.ReplicaJoined: _joined,
    e.ReplicaLeft: _left,
    e.Draining: _draining,
    e.Scraped: _scraped,
    e.ScrapeFailed: _scrape_failed,
    e.Ejected: _ejected,
    e.Probing: _probing,
    e.Live: _live,
}


def _looking_anew(fold: _Fold) -> _Fold:
    def folded(state: State, version: int, at_ms: int, event: e.Event) -> None:
        fold(state, version, at_ms, event)
        state.looked.seen.clear()

    return folded


_FOLDS: dict[type, _Fold] = {
    **_ON_REQUESTS,
    **{kind: _looking_anew(fold) for kind, fold in _ON_THE_FLEET.items()},
}
