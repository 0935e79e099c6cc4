"""The story of a request that was never dispatched: who refused it, and what was full or out then.

How long it waited in line is in its row, and what stood at the refusal.
"""

import attrs

from eventlog.errors import LogDamaged
from eventlog.record import Record
from trioroute.events import Refused
from trioroute.projections import State
from trioroute.projections.measure import ROUTABLE
from trioroute.replay.client import refused_words
from trioroute.replay.clock import local_iso, span
from trioroute.replay.explain import seen_at
from trioroute.replay.incident.prove_refusals import refusal_proofs
from trioroute.replay.incident.room import REFUSED
from trioroute.replay.read import CannotRead, Source, decision_name
from trioroute.replay.told import ReplicaSeen
from trioroute.settings.errors import SettingsError

PROOF_ROWS = 30_000
"""Rows that are folded at most to find what would have prevented it."""

_CAUSES = {
    "invalid_request": "the router could not use the request: its body or its model",
    "invalid_api_key": "it came without a key that this router knows",
    "unsupported_encoding": "its body had a content coding that the router does not read",
    "body_too_large": "its body was larger than server.max_body_bytes once it was inflated",
    "rate_limited": "its key was at its max_in_flight or requests_per_minute; keys are not in the "
    "log, so which of them it was is not known here",
    "log_stalled": "the event log took nothing in time, and log.on_failure was refuse",
    "method_not_allowed": "its method is not served there",
    "not_found": "its path is not served here",
    "shutting_down": "the router was ending",
}
_REMEDIES = {
    "invalid_request": "correct the request: the client's error says what of it",
    "invalid_api_key": "send authorization: Bearer KEY with one of the keys of this router",
    "model_not_found": "correct the name, or wait for the replica that serves it",
    "unsupported_encoding": "send gzip, deflate, br, zstd, or no coding",
    "body_too_large": "send less, or raise server.max_body_bytes",
    "rate_limited": "try again after Retry-After, or raise the limits of the key",
    "no_healthy_instances": "see when replicas come back: --at with this time, --replica with a "
    "name",
    "overloaded": "try again after Retry-After; add replicas, or raise admission.max_wait, "
    "admission.max_waiting or admission.max_in_flight",
    "log_stalled": "see the disk of the log; log.on_failure=serve serves unlogged",
    "method_not_allowed": "see the header allow of the answer",
    "not_found": "use a path under /v1/",
    "shutting_down": "try again: another router takes it",
}


@attrs.frozen(kw_only=True)
class RefusedTold:
    """``place`` is the row of the refusal; ``client`` what the client got; ``cause`` the limit or
    state that refused it; ``replicas`` those that serve its model as they were then (of a model
    that nobody serves, none). ``waited_ms``: in the line. ``remedies``: proved ones first."""

    request_id: str
    place: str
    at_ms: int
    at: str
    code: str
    client: str
    model: str | None
    key: str | None
    cause: str
    replicas: tuple[ReplicaSeen, ...]
    remedies: tuple[str, ...]
    waited_ms: int = 0


def tell_refused(source: Source, record: Record) -> RefusedTold:
    """Of the refusal in ``record``, from the state at its row. Raises CannotRead, LogDamaged."""
    event = source.event(record)
    if not isinstance(event, Refused):
        raise CannotRead(f"{decision_name(record.stream, record.version)} is no refusal")
    past = source.past_before(record)
    source.fold_before_row(past, record)
    state, at_ms = past.state, record.at_ms
    pool = state.fleet.pools.get(event.model or "", ())
    replicas = tuple(seen_at(state, one.name, at_ms) for one in pool)
    return RefusedTold(
        request_id=event.request_id,
        place=decision_name(record.stream, record.version),
        at_ms=at_ms,
        at=local_iso(at_ms),
        code=event.code,
        client=refused_words(event.code),
        model=event.model,
        key=event.key,
        cause=_cause(state, event, replicas),
        replicas=replicas,
        remedies=(*_proved(source, record, event, state), _REMEDIES[event.code]),
        waited_ms=event.waited_ms,
    )


def _proved(source: Source, record: Record, event: Refused, state: State) -> tuple[str, ...]:
    if event.code not in REFUSED or event.model is None:
        return ()
    left = PROOF_ROWS

    def affords(rows: int) -> bool:
        nonlocal left
        left -= rows
        return left >= 0

    try:
        return tuple(one.text for one in refusal_proofs(source, affords, record, event, state))
    except (CannotRead, LogDamaged, SettingsError):
        return ()


def _cause(state: State, event: Refused, replicas: tuple[ReplicaSeen, ...]) -> str:
    model = event.model or "its model"
    if event.code == "model_not_found":
        served = ", ".join(list(state.fleet.pools)[:10]) or "none"
        return f"no replica ever served {model}; models served then: {served}"
    if event.code not in ("overloaded", "no_healthy_instances"):
        return _CAUSES[event.code]
    if not replicas:
        return f"no replica served {model} then"
    out = [f"{one.name} {one.state}" for one in replicas if one.state not in ROUTABLE]
    there = [one for one in replicas if one.state in ROUTABLE]
    if not there:
        return f"no replica for {model} was LIVE or PROBING: {', '.join(out)}"
    said = [_load(state, one) for one in there] + out
    limits = state.settings.admission
    if not limits.max_waiting or not limits.max_wait_ms:
        line = "and nobody may wait in line (admission.max_waiting or max_wait is 0)"
    elif event.waited_ms:
        line = (
            f"and it had waited in line for {span(event.waited_ms)}, of "
            f"admission.max_wait={limits.max_wait_ms}ms"
        )
    else:
        line = f"and the line (admission.max_waiting={limits.max_waiting}) was full"
    return f"no replica for {model} had room: {', '.join(said)}; {line}"


def _load(state: State, one: ReplicaSeen) -> str:
    limit = state.settings.admission.max_in_flight
    if limit and one.in_flight >= limit:
        return f"{one.name} full (in flight {one.in_flight} of admission.max_in_flight={limit})"
    waits = f", {one.waiting} waiting" if one.waiting else ""
    return f"{one.name} {one.state}, {one.in_flight} in flight{waits}"
