"""What stopped a failed request from being tried again: ``retries.max`` or ``retries.budget``.

Only where the rows leave nothing else: it could safely be sent again, and a LIVE replica that it
had not tried was there all the while (HTTP.md, "When a request is tried again").
"""

from collections.abc import Sequence

import attrs

from trioroute.events import Dispatched, Failed, Released
from trioroute.policy.retry_budget import ALWAYS_ALLOWED, WINDOW_MS
from trioroute.projections import State
from trioroute.replay.incident.changed import Change, Proof

SLOT_MS = 1000
"""The budget's window begins with a whole second."""


@attrs.frozen
class Around:
    """What the rows around an attempt tell of the budget of retries.

    ``failed``: attempts that moved on in any window that it may have been judged in, all that can
    have taken from the budget. ``requests`` of its model that came within all such windows.
    """

    failed: int
    requests: int


def window_of(sent_ms: int, ended_ms: int) -> tuple[int, int]:
    """When the widest window begins, and the narrowest one, of an attempt of that time."""
    return sent_ms - WINDOW_MS - SLOT_MS, ended_ms - WINDOW_MS + SLOT_MS


def retry_proof(
    decision: str,
    sent: tuple[int, Dispatched],
    event: Released,
    earlier: Sequence[Failed],
    around: Around,
    state: State,
) -> Proof | None:
    """``sent`` is the time and the row of the last attempt, ``state`` that before its end."""
    at_ms, dispatched = sent
    if event.outcome != "upstream_error" or event.blame == "router":
        return None
    again_500 = event.status == 500 and any(one.status == 500 for one in earlier)
    free = event.cause == "refused"
    safe = free or any(one.status is not None for one in earlier)
    other = _untried(at_ms, dispatched, state)
    if again_500 or not safe or other is None:
        return None
    rules = state.settings.retries
    failed = f"{decision} failed in attempt {dispatched.attempt} while {other} was LIVE and untried"
    if dispatched.attempt > rules.max:
        if not free and around.failed >= ALWAYS_ALLOWED:
            return None  # the budget might have been spent
        change = Change("retries.max", str(rules.max), str(dispatched.attempt))
        return Proof(change, f"{failed}: with {change.words} it would have been tried again")
    if free or around.failed < ALWAYS_ALLOWED or not around.requests:
        return None  # something else stopped it
    enough_m = -(-(around.failed + 1) * 1000 // around.requests)
    if not rules.budget_m < enough_m <= 1000:
        return None
    change = Change("retries.budget", _share(rules.budget_m), _share(enough_m))
    return Proof(
        change,
        f"{failed}, and the budget of retries was spent: with {change.words} it would have been "
        "tried again",
    )


def _untried(at_ms: int, sent: Dispatched, state: State) -> str | None:
    """A replica that was LIVE from when it was sent to its end, and that it had not tried."""
    tried = (*sent.tried, sent.replica)
    for replica in state.fleet.pool(sent.model):
        name = replica.name
        live = state.standing(name) == "LIVE" and state.health[name].live_since_ms <= at_ms
        if live and name not in tried:
            return name
    return None


def _share(thousandths: int) -> str:
    return f"{thousandths // 1000}.{thousandths % 1000:03d}".rstrip("0").rstrip(".")
