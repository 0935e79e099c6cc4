"""What keys of one name have in common: a team's limits and history, while its keys come and go."""

from collections.abc import Iterable, Iterator

import attrs

from trioroute.settings.api_keys import MOST_KEYS, ApiKey
from trioroute.settings.errors import Problem, shown

_WHERE = "server.api_keys"
_ALIKE = ("project", "requests_per_minute", "max_in_flight", "weight")
_NAMES_SHOWN = 20


def with_limits(
    place: str, entries: Iterable[ApiKey], from_file: Iterable[ApiKey]
) -> Iterator[ApiKey | Problem]:
    """All keys; those from the file with the limits that an entry without ``sha256`` gives them."""
    lines = tuple(from_file)
    names = {key.name for key in lines}
    limits: dict[str, ApiKey] = {}
    for entry in entries:
        if entry.sha256:
            yield entry
        elif entry.name in limits:
            why = "has its limits twice"
            yield Problem(place, _WHERE, shown(entry.name), why, f"remove {entry.written}")
        elif entry.name not in names:
            why = "has limits without sha256, and server.api_keys_file holds no key of that name"
            remedy = "write its sha256 beside them, or its line into that file"
            yield Problem(place, _WHERE, shown(entry.name), why, remedy)
        else:
            limits[entry.name] = entry
    for key in lines:
        given = limits.get(key.name, key)
        yield attrs.evolve(
            key,
            requests_per_minute=given.requests_per_minute,
            max_in_flight=given.max_in_flight,
            weight=given.weight,
        )


def clashing(place: str, keys: Iterable[ApiKey]) -> Iterator[Problem]:
    """One key under two names, which a log could not tell apart, or two keys of one name that are
    not alike in all else: a name has one count and one line. Two that are alike are a rotation."""
    names: dict[str, ApiKey] = {}
    hashes: dict[str, ApiKey] = {}
    for count, key in enumerate(keys, 1):
        if count > MOST_KEYS:
            yield Problem(place, _WHERE, "", f"are over {MOST_KEYS}", "remove some")
            return
        first = names.setdefault(key.name, key)
        differ = [field for field in _ALIKE if getattr(first, field) != getattr(key, field)]
        if differ:
            why = f"is used twice ({first.written}; {key.written}) with another {differ[0]}"
            remedy = "keys of one name are alike in all but sha256: write the same, or rename one"
            yield Problem(place, _WHERE, shown(key.name), why, remedy)
        same = hashes.setdefault(key.sha256, key)
        if same is not key:
            why = f"is the same key as {shown(same.name)} ({same.written}; {key.written})"
            yield Problem(place, _WHERE, shown(key.name), why, "remove one of the two")


def changed_names(old: Iterable[ApiKey], new: Iterable[ApiKey]) -> str:
    """Which names came, went and have other keys or limits, for the process log; empty: none."""
    was, now = _by_name(old), _by_name(new)
    told = (
        ("new", [name for name in now if name not in was]),
        ("gone", [name for name in was if name not in now]),
        ("changed", [name for name in now if name in was and now[name] != was[name]]),
    )
    return "; ".join(f"{word} {_listed(names)}" for word, names in told if names)


def _by_name(keys: Iterable[ApiKey]) -> dict[str, set[ApiKey]]:
    found: dict[str, set[ApiKey]] = {}
    for key in keys:
        found.setdefault(key.name, set()).add(key)
    return found


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(sorted(names)[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
