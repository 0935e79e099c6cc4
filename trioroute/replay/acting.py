"""Which settings act on the choice of a replica, and why the others cannot be asked "what if"."""

from collections.abc import Iterable

from trioroute.events.sections import InForce
from trioroute.settings.known import KNOWN_KEYS
from trioroute.settings.setting_words import value_of

ON_THE_CHOICE = frozenset(
    {
        "policy.name",
        "policy.load",
        "policy.slack.session",
        "policy.slack.prefix",
        "wlc.unit_tokens",
        "wlc.bytes_per_token",
        "pins.session_ttl",
        "pins.prefix_ttl",
        "pins.spills_to_rebind",
        "pins.force_rebind",
        "pins.prefix_spills_to_drop",
        "pins.max",
        "scrape.interval",
        "scrape.stale_after",
        "eject.stall_after",
        "probing.max_in_flight",
        "admission.max_in_flight",
    }
)
"""What the policies read when they take a decision (a test watches them do it)."""

_AFTERWARDS = (
    "acts on what becomes of requests and replicas, not on which replica is chosen: the log has "
    "no other outcome to tell"
)
_WHY_NOT = {
    "admission": _AFTERWARDS,
    "eject": _AFTERWARDS,
    "probing": _AFTERWARDS,
    "retries": _AFTERWARDS,
    "scrape": _AFTERWARDS,
    "timeouts": _AFTERWARDS,
    "pins": "acts on how a request's keys are found, and the log holds only the keys",
    "log": "acts on no decision",
    "server": "acts on no decision",
}


def choose_alike(one: InForce, other: InForce) -> bool:
    """Whether no setting that acts on the choice differs."""
    fields = (KNOWN_KEYS[key].field for key in ON_THE_CHOICE)
    return all(value_of(one, field) == value_of(other, field) for field in fields)


def why_not(key: str) -> str | None:
    """Why ``key`` changes no recorded decision, None if it may."""
    if key in ON_THE_CHOICE:
        return None
    return _WHY_NOT.get(key.partition(".")[0], "acts on no decision")


def idle(keys: Iterable[str]) -> list[str]:
    """One sentence for each known key that changes no recorded decision."""
    found = ((key, why_not(key)) for key in keys if key in KNOWN_KEYS)
    return [f"{key} {why}" for key, why in found if why is not None]
