"""How a dispatch ended, in words: what the replica did, and who ended it if it was not the replica.

What the client got is another question: ``client`` answers it.
"""

from trioroute.events import Failed, Released
from trioroute.projections.health import BUSY_STATUSES
from trioroute.replay.client import released_words
from trioroute.replay.clock import span
from trioroute.replay.told import End
from trioroute.replay.words import plural

REPLICA = "the replica"

ENDS_LOST = "its end is among the last events of that run, which could not be written"

_ON_THE_WIRE = {
    "refused": "refused the connection",
    "dns": "was not found: its name has no address",
    "tls": "failed the TLS handshake",
    "fin": "closed the connection too early",
    "reset": "reset the connection",
    "protocol": "sent what cannot be understood",
}
"""By cause, what a replica did."""


def end_words(
    outcome: str, cause: str | None, blame: str | None, status: int | None, *, judged: bool = True
) -> str:
    """The outcome and what was behind it: "failed (the replica answered 502, held against it)".

    Without ``judged`` it is not said whether it counts towards an eject (RULES 6.2).
    """
    what = what_happened(REPLICA, outcome, cause, blame, status)
    if judged and blame == "replica":
        what += ", held against it"
    return f"{outcome} ({what})" if what else outcome


def what_happened(
    who: str, outcome: str, cause: str | None, blame: str | None, status: int | None
) -> str:
    """A clause, ``who`` being the replica; empty where it answered as it should."""
    if cause == "timeout":
        return _over_time(who, outcome, blame, status)
    answered = "" if status is None else f"{who} answered {status}"
    after = f", after {answered}" if status is not None else ""
    match cause:
        case "status" if blame == "router":
            return f"{answered or who + ' said no'} to the router's own key"
        case "status":
            busy = ": busy" if status in BUSY_STATUSES else ""
            return f"{answered or who + ' answered with an error'}{busy}"
        case "error_event":
            return f"{who} answered 200 with an error {status} in it"
        case "abort":
            return f"{who} answered 200, but gave up by itself: finish_reason abort"
        case "cancelled":
            return f"its client left{after or f', before {who} answered'}"
        case "shutdown":
            return f"the router was ending{after}"
        case None | "none":
            return _without_cause(outcome, answered, status)
    if blame == "router":
        return f"the router had a fault of its own: {cause}"
    done = _ON_THE_WIRE.get(cause, cause)
    if outcome == "upstream_empty":
        done = "ended it without a word"
    return f"{answered}, then {done}" if answered else f"{who} {done}"


def _without_cause(outcome: str, answered: str, status: int | None) -> str:
    if outcome == "unknown":
        return "an error of the router's own"
    return "" if outcome == "ok" and status == 200 else answered


def _over_time(who: str, outcome: str, blame: str | None, status: int | None) -> str:
    """A limit of time was over: whose, and what had come until then."""
    answered = "" if status is None else f"{who} answered {status}"
    match outcome:
        case "client_stall":
            return "its client took no byte for timeouts.client_stall"
        case "failed" | "unknown" if blame == "router":
            return "the log took nothing in time"
        case "idle_timeout" if blame == "router":
            return "timeouts.total was over in the middle of the answer"
        case "first_byte_timeout" if blame == "router":
            return f"timeouts.total was over before {who} sent a byte of the body"
        case "idle_timeout":
            return f"{answered or who + ' answered'}, then fell silent in the middle of it"
        case "first_byte_timeout" if answered:
            return f"{answered}, but no byte of the body came in time"
        case "first_byte_timeout":
            return f"{who} sent nothing in time"
    return f"{answered}, then was silent" if answered else f"{who} did not answer in time"


def ended_words(event: Failed | Released, who: str) -> str:
    """What ``who``, the replica, did, and what the client of a ``Released`` got."""
    if isinstance(event, Failed):
        return what_happened(who, "failed", event.cause, event.blame, event.status)
    end = (event.outcome, event.cause, event.blame, event.status)
    return f"{what_happened(who, *end) or event.outcome}; its client got {released_words(*end)}"


def ended_in_full(end: End | None) -> str:
    """How a dispatch ended, with its times and counts; None: its end is not in the log."""
    if end is None:
        return "still in flight where the log ends"
    words = end_words(end.outcome, end.cause, end.blame, end.status)
    if end.what == "Died":
        return f"unknown: the router died under it, {span(end.after_ms)} later or after"
    if end.what == "Unwritten":
        return f"unknown: {ENDS_LOST}"
    if end.what == "Orphaned":
        return f"unknown: the router died under it (closed {span(end.after_ms)} later)"
    if end.what == "Failed":
        return f"{words} after {span(end.after_ms)}"
    parts = [words]
    if end.ttfb_ms is not None:
        parts.append(f"first byte after {span(end.ttfb_ms)}")
    if end.duration_ms is not None:
        parts.append(f"took {span(end.duration_ms)}")
    tokens = (("prompt", end.prompt_tokens), ("completion", end.completion_tokens))
    parts += [plural(number, f"{name} token") for name, number in tokens if number is not None]
    parts.append(plural(end.bytes or 0, "byte"))
    return ", ".join(parts)
