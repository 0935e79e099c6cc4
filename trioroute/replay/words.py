"""Events of pins and health as sentences."""

import attrs

from trioroute.counted import plural as plural
from trioroute.events import (
    Bound,
    Draining,
    Ejected,
    Event,
    Failed,
    Gap,
    Live,
    Probing,
    Rebound,
    Released,
    ReplicaJoined,
    ReplicaLeft,
    ScrapeFailed,
    Spilled,
    Unbound,
)
from trioroute.replay.clock import span

NOT_FAILED = frozenset({"ok", "client_error", "client_gone", "client_stall"})
"""Outcomes that are no failure of the service."""

_SPILLED_AT = {
    "queue": "requests wait {there}",
    "running": "more run {there} than the slack allows",
    "busy": "{it} answered 429 or 503",
    "stalled": "{it} generates no token",
    "full": "{it} is full",
    "tried": "this request already tried {it}",
}
SPILLS = {cause: text.format(it="it", there="there") for cause, text in _SPILLED_AT.items()}
PIN_ENDS = {
    "spills": "too many spills in a row",
    "force": "far more run there than elsewhere",
    "failed": "the request that bound it moved on",
    "ttl": "its time was over",
    "evicted": "the table was full and it was the least recently used",
    "ejected": "the replica was ejected",
    "probing": "the replica is probing",
    "draining": "the replica is draining",
    "joining": "the replica has not joined",
    "asleep": "the replica is asleep",
    "gone": "the replica left the pool",
}


def pin_words(event: Bound | Spilled | Rebound | Unbound) -> str:
    """What happened to a pin, with its cause."""
    if isinstance(event, Bound):
        return f"{event.kind} pin bound to {event.replica}"
    if isinstance(event, Spilled):
        why = _SPILLED_AT[event.cause].format(it=event.replica, there=f"on {event.replica}")
        where = f"{event.kind} pin to {event.replica} spilled to {event.to}"
        return f"{where}: {why}, spill {event.count} in a row"
    if isinstance(event, Rebound):
        moved = f"{event.kind} pin moved from {event.previous} to {event.replica}"
        if event.previous == event.replica:
            moved = f"{event.kind} pin made anew on {event.replica}"
        return f"{moved}: {_ended_by(event.cause, event.previous)}"
    why = _ended_by(event.cause, event.replica)
    return f"{event.kind} pin to {event.replica} removed: {why}"


def _ended_by(cause: str, replica: str) -> str:
    """Why a pin to ``replica`` did not stay."""
    text = PIN_ENDS[cause]
    if text.startswith("the replica "):
        return f"{replica} {text.removeprefix('the replica ')}"
    return text.replace("run there", f"run on {replica}")


def cause_words(event: Ejected, before: Event | None) -> str:
    """Why it was ejected; the row that led to it, ``before``, says which status it was."""
    if event.cause == "status" and isinstance(before, Failed | Released | ScrapeFailed):
        return f"status {before.status}" if before.status is not None else "status"
    return event.cause


def _led_by(event: Ejected, before: Event | None) -> str:
    """What failed last: a request or a scrape."""
    if isinstance(before, ScrapeFailed) and before.replica == event.replica:
        return f"{cause_words(event, before)} (a scrape)"
    if isinstance(before, Failed | Released):
        return f"{cause_words(event, before)} (a request)"
    return cause_words(event, before)


def health_words(event: Event, at_ms: int, before: Event | None = None) -> str | None:
    """What happened to a replica's place in the fleet; None for other events. ``before`` is the row
    that led to an eject, where it is known."""
    match event:
        case ReplicaJoined():
            models = ", ".join(event.models) or "asked from it"
            joined = f"joined or changed: {event.url} ({event.engine}), models {models}"
            return joined + _who(event.by, event.why)
        case ReplicaLeft():
            return "left the fleet" + _who(event.by, event.why)
        case Draining():
            drains = "draining: takes no new request" + (", then leaves" if event.leaves else "")
            told = drains if event.on else "draining is over"
            return told + _who(event.by, event.why)
        case Live():
            return "LIVE"
        case Probing():
            return "PROBING"
        case Ejected():
            cooldown = span(event.until_ms - at_ms)
            cause = "by hand" if event.by is not None else _led_by(event, before)
            told = f"EJECTED for at least {cooldown}: {cause}, eject {event.n} in a row"
            return told + _who(event.by, event.why)
        case ScrapeFailed():
            status = f" {event.status}" if event.status is not None else ""
            return f"scrape failed: {event.cause}{status}"
        case _:
            return None


@attrs.define
class BusySpells:
    """When replicas began to be passed over, as they answered 429 or 503 (RULES 6.2)."""

    until_ms: dict[str, int] = attrs.field(factory=dict)

    def begins(self, replica: str, at_ms: int, event: Failed | Released) -> str | None:
        """In words, without the name; None where it was busy already, or answered otherwise."""
        if event.retry_after_ms is None:
            return None
        known_ms = self.until_ms.get(replica, 0)
        self.until_ms[replica] = max(known_ms, at_ms + event.retry_after_ms)
        if at_ms < known_ms:
            return None
        return f"answered {event.status}: busy, passed over for {span(event.retry_after_ms)}"


def _who(by: str | None, why: str) -> str:
    if by in (None, "start"):
        return ""
    return f", by {by}: {why}" if why else f", by {by}"


def gap_words(event: Gap) -> str:
    """For how long the log was not whole, what is lost, and what went out without it."""
    if not event.from_ms:
        return f"{plural(event.lost, 'event')} before this one are not in the log any more"
    lost = f"{plural(event.lost, 'event')} lost"
    if event.unlogged:
        lost += f", {plural(event.unlogged, 'response')} went out unlogged (log.on_failure=serve)"
    return f"the log could not be written for {span(max(0, event.to_ms - event.from_ms))}: {lost}"
