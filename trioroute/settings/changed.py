"""Which settings became others, as words."""

from collections.abc import Iterable, Iterator

from trioroute.events import Configured, Draining, Event, ReplicaJoined, ReplicaLeft
from trioroute.events.sections import InForce
from trioroute.settings.known import KNOWN_KEYS
from trioroute.settings.load import Settings
from trioroute.settings.setting_words import setting_words, value_of

NAMED_MAX = 5
VALUE_MAX = 60
"""Characters of a value that are shown."""

RELOAD_MAX = 20
"""Changes of one reload that are told."""


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
    changed = changed_keys(before, after)
    if not changed:
        return "settings in force again, all that the log holds as before (API keys are not in it)"
    return f"other settings in force: {', '.join(changed)}"


def changed_keys(before: InForce, after: InForce) -> list[str]:
    """ "eject.cooldown 30s -> 1m" of each key that became another; of many the first ones, and how
    many more there are."""
    fields = ((key, info.field) for key, info in KNOWN_KEYS.items())
    keys = [key for key, field in fields if value_of(before, field) != value_of(after, field)]
    named = [f"{key} {_shown(before, key)} -> {_shown(after, key)}" for key in keys[:NAMED_MAX]]
    more = len(keys) - NAMED_MAX
    return [*named[:-1], f"{named[-1]} and {more} more"] if more > 0 else named


def _shown(settings: InForce, key: str) -> str:
    text = setting_words(settings, key) or '""'
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}..."


def reload_words(before: Settings, after: Settings, events: Iterable[Event]) -> tuple[str, ...]:
    """What a reload changed, each in a few words; ``events`` are those it made. API keys and the
    certificate are not among them."""
    told = [*changed_keys(before.in_force, after.in_force), *_beside(before, after, events)]
    if len(told) > RELOAD_MAX:
        told[RELOAD_MAX:] = [f"and {len(told) - RELOAD_MAX} more"]
    return tuple(told)


def _beside(before: Settings, after: Settings, events: Iterable[Event]) -> Iterator[str]:
    """What ``Configured`` does not hold."""
    if before.generic != after.generic:
        yield "scrape.generic"
    if before.discovery != after.discovery:
        yield "discovery"
    known = {one.name: one.api_key_env for one in before.replicas}
    for replica in after.replicas:
        if known.get(replica.name, replica.api_key_env) != replica.api_key_env:
            yield f"replica.api_key_env of {replica.name}"
    for event in events:
        if isinstance(event, ReplicaJoined):
            yield f"replica {event.replica} {'changed' if event.replica in known else 'joined'}"
        elif isinstance(event, ReplicaLeft):
            yield f"replica {event.replica} left"
        elif isinstance(event, Draining):
            yield f"replica {event.replica} takes part again"
