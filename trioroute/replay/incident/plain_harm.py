"""Harm that no setting is proved to prevent: one plain sentence, and why.

Also of what no row of an eject, an end or a refusal tells by itself: requests that were tried
again, that every replica failed, and that were delayed.
"""

from trioroute.events import Dispatched, Failed, Refused, Released
from trioroute.projections import State
from trioroute.replay.clock import span
from trioroute.replay.end_words import what_happened
from trioroute.replay.incident.changed import Proof
from trioroute.replay.incident.told import Late

_NONE = "no setting of the router is proved to prevent that"

_ENDS = {
    "upstream_cut": "an answer that has begun cannot be tried elsewhere",
    "upstream_empty": "an answer that has begun cannot be tried elsewhere",
    "shutdown": "it ended with the router, which was stopped: server.graceful_timeout is how long "
    "it lets requests go on",
    "idle_timeout": "its replica fell silent in the middle of it, and an answer that has begun "
    "cannot be tried elsewhere",
    "first_byte_timeout": "which limit of time ended it is not certain",
}
_CAUSES = {
    "refused": "refused the connection",
    "dns": "had a name that could not be looked up",
    "tls": "could not be spoken to over TLS",
    "fin": "closed the connection",
    "reset": "reset the connection",
    "timeout": "did not answer in time",
    "protocol": "did not answer as HTTP asks",
}
_REFUSED = {
    "no_healthy_instances": "nobody was left to take it (RULES 4 step 5)",
    "shutting_down": "the router was ending: only another router could have taken it",
    "rate_limited": "its key was at its own limit (server.api_keys: requests_per_minute or "
    "max_in_flight), which is not in the log",
    "model_not_found": "no replica ever served that model",
    "invalid_api_key": "it came without a key of this router",
}


def end_words(decision: str, sent: Dispatched | None, event: Released, state: State) -> Proof:
    """Of a request that failed, where nothing else is proved."""
    name = "its replica" if sent is None else sent.replica
    how = what_happened(name, event.outcome, event.cause, event.blame, event.status)
    failed = f"{_NONE} {decision} failed ({how or event.outcome})"
    if event.outcome != "upstream_error":
        why = _ENDS.get(event.outcome, "the log does not tell what else could have been done")
        return Proof(None, f"{failed}: {why}")
    return Proof(None, f"{failed}: {_not_again(sent, event, state)}")


def _not_again(sent: Dispatched | None, event: Released, state: State) -> str:
    """Why it was not tried again (HTTP.md), as far as the rows tell."""
    if event.blame == "router":
        return "the replica did not take it from this router, such as for its api_key_env"
    if sent is None:
        return "the row of its dispatch is not there to be read"
    tried = {*sent.tried, sent.replica}
    left = [one.name for one in state.fleet.pool(sent.model) if one.name not in tried]
    live = [name for name in left if state.standing(name) == "LIVE"]
    if not live:
        out = ", ".join(f"{name} {state.standing(name)}" for name in left)
        return f"no other replica was LIVE that it had not tried{f': {out}' if out else ''}"
    if event.status == 500 and sent.tried:
        return "a second 500 speaks for the request itself, so it is not tried a third time"
    if event.status is None and event.cause != "refused":
        return (
            f"{sent.replica} had it and may have worked on it, so it is not sent again (RULES 4.6)"
        )
    return (
        f"{live[0]} was LIVE at the end, but whether it was all the while, or the budget of "
        "retries was spent, is not certain"
    )


def lost_words(decision: str, sent: Dispatched | None, event: Failed) -> Proof:
    """Of a request whose last attempt failed, and nothing came after it."""
    name = "its replica" if sent is None else sent.replica
    why = "the log ends there or its client left, so nobody tried it again"
    how = what_happened(name, "failed", event.cause, event.blame, event.status)
    return Proof(None, f"{_NONE} {decision} failed ({how}): {why}")


def refused_words(place: str, event: Refused) -> Proof:
    why = _REFUSED.get(event.code, "the request itself could not be served")
    return Proof(None, f"no setting of the router prevents that {place} was refused: {why}")


def retried_words(decision: str, earlier: Failed | None, replica: str) -> Proof:
    """Of requests that were tried again: the first one's attempt before."""
    did = "failed" if earlier is None else _did(earlier)
    return Proof(
        None,
        f"no setting of the router prevents that {decision} had to be tried again: {replica} {did} "
        "though it was in traffic, which is known only by such requests and by scrapes",
    )


def delayed_words(part: str, late: Late) -> Proof:
    """Of requests that were delayed for one reason, where no setting is proved to help."""
    delay, name = late.delay, f"{late.decision} ({late.request_id}) was delayed"
    if part == "stood":
        return Proof(
            None,
            f"no setting of the router prevents that {name}: the router itself stood still for "
            f"{span(late.stood_ms)} of it",
        )
    if part == "line":
        why = (
            f"it stood in line for {span(delay.waited_ms)} behind others, and which limit had let "
            "all of them run sooner is not proved"
        )
    elif part == "tried":
        why = f"its earlier attempts took {span(delay.tried_ms)} to fail"
    else:
        took_ms = delay.first_byte_ms - delay.waited_ms - delay.tried_ms
        why = (
            f"{late.replica} took {span(took_ms)} to its first byte where "
            f"{span(delay.usual_ttfb_ms)} is usual, and a replica that is slow but answers is in "
            "traffic; whether other settings had sent fewer there is for --what-if"
        )
    return Proof(None, f"{_NONE} {name}: {why}")


def _did(event: Failed) -> str:
    if event.status is not None:
        return f"answered {event.status}"
    return _CAUSES.get(event.cause, f"failed ({event.cause})")
