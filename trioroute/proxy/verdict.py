"""What a replica's answer, or its silence, says about the replica and about trying elsewhere."""

import attrs

from trioroute.events.words import Blame, Cause
from trioroute.projections.health import BUSY_STATUSES, FAULT_STATUSES
from trioroute.proxy.headers import RawHeaders, header_value
from trioroute.proxy.upstream.error import UpstreamError

RETRY_AFTER_MAX_MS = 300_000


@attrs.frozen(slots=True)
class Trouble:
    """``sent``: the replica may have worked on the request, so only repeatable ones move on.

    ``sent_before``: it may have before what failed now; moves on then, but not for free.
    ``retry_after_ms`` is set when the replica is busy, not broken (RULES 6.2).
    """

    cause: Cause
    blame: Blame
    status: int | None
    sent: bool
    retry_after_ms: int | None = None
    sent_before: bool = False


def of_error(error: UpstreamError) -> Trouble:
    """The router's own faults (no descriptors, no ports) never count against a replica."""
    blame: Blame = "router" if error.local else "replica"
    return Trouble(error.cause, blame, None, error.sent, sent_before=error.sent_before)


def of_status(status: int, headers: RawHeaders, busy_default_ms: int) -> Trouble | None:
    """None for an answer that is the replica's proper word to the client."""
    if status in BUSY_STATUSES:
        wait_ms = _retry_after_ms(headers)
        wait_ms = busy_default_ms if wait_ms is None else wait_ms
        return Trouble("status", "none", status, True, wait_ms)
    if status in FAULT_STATUSES:
        return Trouble("status", "replica", status, True)
    return None


def of_error_event(code: int, busy_default_ms: int) -> Trouble | None:
    """The same for an error inside a 200 (RULES 6.12): None for one that is the client's own.

    Every 5xx but the busy one is the replica's fault: a stream that began well was given up.
    """
    if code in BUSY_STATUSES:
        return Trouble("error_event", "none", code, True, busy_default_ms)
    return Trouble("error_event", "replica", code, True) if code >= 500 else None


def _retry_after_ms(headers: RawHeaders) -> int | None:
    """Seconds only: the date form of RFC 9110 10.2.3 is not used by engines."""
    value = header_value(headers, b"retry-after")
    if value is None or not value.isdigit() or len(value) > 9:
        return None
    return min(RETRY_AFTER_MAX_MS, int(value) * 1000)
