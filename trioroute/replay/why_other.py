"""Why a decision would have been another one, in words that group alike differences."""

from collections.abc import Sequence

from trioroute.events import Bound, Event, Rebound, Spilled, Unbound
from trioroute.policy.select import Choice

Taken = tuple[Choice, Sequence[Event]]
"""A choice and the events it led to."""

_LEFT = {
    "queue": "requests wait there",
    "running": "more run there than the slack allows",
    "busy": "it is busy",
    "stalled": "it is stalled",
    "full": "it is full",
    "tried": "it was tried already",
}
_NOT_SENT = {
    "wait": "would have waited in line: only full replicas",
    "unhealthy": "would have been refused: no replica to try",
    "unknown_model": "would have been refused: unknown model",
    "exhausted": "would not have been tried again: every replica was",
}
_PIN_WORDS: dict[type, str] = {
    Bound: "bound",
    Spilled: "counted as a spill",
    Rebound: "rebound",
    Unbound: "removed",
}


def cause_of(kind: str, was: Taken, now: Taken) -> str:
    """What the change did to the decision: no names, so that alike ones count together."""
    if kind == "weight":
        return "the same choice, another weight"
    if kind == "pins":
        return _pins(was[1], now[1])
    before, after = was[0], now[0]
    if after.verdict != "chosen":
        return _NOT_SENT[after.verdict]
    where = "" if after.replica != before.replica else ", the same replica"
    return _choice(before, after) + where


def _choice(before: Choice, after: Choice) -> str:
    if after.weighed and not before.weighed:
        return "least work elsewhere" if after.replica != before.replica else "least work there too"
    if after.weighed:
        return "other least work"
    if after.reason == "affinity:session":
        return "would have used the session pin"
    if after.reason == "affinity:prefix":
        return "would have used the prefix pin"
    if before.weighed:
        return "would have gone to the least loaded"
    if before.reason in ("affinity:session", "affinity:prefix"):
        pin = after.pin
        kind = before.reason.removeprefix("affinity:")
        if pin is None or pin.kind != kind:
            return f"the {kind} pin would have been gone"
        if pin.spill is not None:
            return f"would have left the {kind} pin: {_LEFT[pin.spill]}"
        return f"the {kind} pin would have been dead"
    if [one.name for one in before.no_wait] != [one.name for one in after.no_wait]:
        return "other candidates after step 2"
    return "other least loaded"


def _pins(was: Sequence[Event], now: Sequence[Event]) -> str:
    """Which pin events would be new and which would be missing."""
    before, after = _told(was[1:]), _told(now[1:])
    added = [text for text in after if text not in before]
    gone = [text for text in before if text not in after]
    parts = [f"would have been {text}" for text in added]
    parts += [f"would not have been {text}" for text in gone]
    return f"the same choice, {'; '.join(parts)}" if parts else "the same choice, other pin events"


def _told(events: Sequence[Event]) -> list[str]:
    return [
        f"{_PIN_WORDS[type(event)]} ({event.kind} pin)"
        for event in events
        if isinstance(event, Bound | Spilled | Rebound | Unbound)
    ]
