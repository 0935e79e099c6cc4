"""Which settings became others, as words."""

from trioroute.events.sections import InForce
from trioroute.settings.known import KNOWN_KEYS

NAMED_MAX = 5


def changed_words(before: InForce, after: InForce) -> str:
    """ "other settings in force: eject.cooldown"; those that no event holds are not among them."""
    fields = ((key, info.field) for key, info in KNOWN_KEYS.items())
    keys = [key for key, field in fields if _of(before, field) != _of(after, field)]
    if not keys:
        return "settings in force again, all as before"
    more = f" and {len(keys) - NAMED_MAX} more" if len(keys) > NAMED_MAX else ""
    return f"other settings in force: {', '.join(keys[:NAMED_MAX])}{more}"


def _of(settings: InForce, field: str) -> object:
    value: object = settings
    for part in field.split("."):
        value = getattr(value, part, None)
    return value
