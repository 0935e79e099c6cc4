"""What a client got, told from how the last attempt of its request ended (HTTP.md, "Errors").

A stream that comments had kept open got the same as an error inside its 200.
"""

from trioroute.proxy.errors import STATUS

_ENDS = {
    "upstream_empty": "an answer that ended without a word",
    "idle_timeout": "an answer that broke off",
    "client_gone": "nothing more: it left before the end",
    "client_stall": "nothing more: it took no byte for timeouts.client_stall",
    "shutdown": "a broken connection: the router was ending",
}


def refused_words(code: str) -> str:
    """ "503 log_stalled" """
    return f"{STATUS[code]} {code}" if code in STATUS else code


def released_words(outcome: str, cause: str | None, blame: str | None, status: int | None) -> str:
    """What a ``Released`` tells of what its client got."""
    match outcome:
        case "ok":
            return "the whole answer"
        case "client_error" | "upstream_error" if cause == "error_event":
            return f"200 with an error in it ({status})"
        case "upstream_error" if cause == "status" and blame == "router":
            return refused_words("upstream_auth")
        case "client_error" | "upstream_error" if cause == "status":
            return f"{status} as the replica answered it"
        case "upstream_error" if blame == "router":
            return refused_words("overloaded")
        case "upstream_error" if blame == "replica":
            return refused_words("upstream_failed")
        case "upstream_cut" if cause == "abort":
            return "an answer that the engine aborted"
        case "upstream_cut":
            return "an answer that broke off"
        case "first_byte_timeout":
            return refused_words("first_byte_timeout")
        case _:
            return _ENDS.get(outcome, "an error of the router")


def failed_words(cause: str | None, blame: str | None) -> str:
    """What the client of a ``Failed`` got that was neither tried again nor refused after it: with
    the router to blame its 503 is what the log did not take."""
    if (cause, blame) == ("timeout", "router"):
        return f"{refused_words('log_stalled')}, whose row the log did not take"
    return "an error or a broken connection: the log does not tell which"


ORPHANED = "a broken connection: the router died"

UNWRITTEN = "what the log does not tell: its end is among events that could not be written"


def no_end_words(what: str) -> str:
    """What the client of a dispatch without an end got; ``what`` as in ``End``."""
    return UNWRITTEN if what == "Unwritten" else ORPHANED
