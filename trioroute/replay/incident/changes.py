"""Which settings became others, as words."""

from trioroute.events import Configured
from trioroute.events.sections import InForce
from trioroute.replay.setting_words import setting_words, value_of
from trioroute.settings.known import KNOWN_KEYS

NAMED_MAX = 5
VALUE_MAX = 60
"""Characters of a value that are shown."""


def configured_words(before: InForce, event: Configured, *, again: bool) -> str | None:
    """What put which settings in force; None: the first start, or (``again``) one that changed
    none."""
    what = changed_words(before, event.settings)
    if event.by != "start":
        return f"{what}, by {event.by}" + (f": {event.why}" if event.why else "")
    return f"{what}, since the start" if again and event.settings != before else None


def changed_words(before: InForce, after: InForce) -> str:
    """ "other settings in force: eject.cooldown 30s -> 1m"; those that no event holds, such as API
    keys, are not among them, and that is said where no other one changed."""
    fields = ((key, info.field) for key, info in KNOWN_KEYS.items())
    keys = [key for key, field in fields if value_of(before, field) != value_of(after, field)]
    if not keys:
        return "settings in force again, all that the log holds as before (API keys are not in it)"
    more = f" and {len(keys) - NAMED_MAX} more" if len(keys) > NAMED_MAX else ""
    named = (f"{key} {_shown(before, key)} -> {_shown(after, key)}" for key in keys[:NAMED_MAX])
    return f"other settings in force: {', '.join(named)}{more}"


def _shown(settings: InForce, key: str) -> str:
    text = setting_words(settings, key) or '""'
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}..."
