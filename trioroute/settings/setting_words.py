"""A setting in force, as a user would write it."""

import json

from trioroute.events.sections import InForce
from trioroute.quantities import duration_text, thousandths_text
from trioroute.settings.known import KNOWN_KEYS


def setting_words(settings: InForce, key: str) -> str:
    """Of one that an event holds; None for what is not in that release's settings."""
    info = KNOWN_KEYS[key]
    value = value_of(settings, info.field)
    if info.kind.suffix == "_ms" and isinstance(value, int):
        return duration_text(value)
    if info.kind.suffix == "_m" and isinstance(value, int):
        return thousandths_text(value)
    if isinstance(value, bool | tuple):
        return json.dumps(value, ensure_ascii=False)  # as TOML has them too
    return str(value)


def value_of(settings: InForce, field: str) -> object:
    """``field`` as ``KeyInfo`` names it."""
    value: object = settings
    for part in field.split("."):
        value = getattr(value, part, None)
    return value
