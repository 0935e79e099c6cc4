"""Every key of ``trioroute.toml``: what it takes, its default, what it means."""

import difflib
from collections.abc import Mapping
from types import MappingProxyType

import attrs

from trioroute.settings.kinds import Kind


@attrs.frozen
class KeyInfo:
    """One key. ``default`` is TOML text, or words for what has none.

    ``field`` is its dotted path in ``events.sections.InForce``, empty where none is needed.
    """

    key: str
    kind: Kind
    default: str
    doc: str
    field: str = ""

    @property
    def variable(self) -> str:
        """The environment variable that sets this key; empty inside ``[[replica]]``."""
        if self.key.startswith("replica."):
            return ""
        return "TRIOROUTE_" + self.key.upper().replace(".", "_")


Row = tuple[str, Kind, str, str]

KEYS_SHOWN = 12
"""Keys of a section that are named."""


def section(name: str, *rows: Row) -> tuple[KeyInfo, ...]:
    """The keys of a section, each with the field it is kept in."""
    return tuple(
        KeyInfo(f"{name}.{key}", kind, default, doc, field=f"{name}.{key}{kind.suffix}")
        for key, kind, default, doc in rows
    )


def table_of(rows: tuple[KeyInfo, ...]) -> Mapping[str, KeyInfo]:
    return MappingProxyType({row.key: row for row in rows})


def sections_of(known: Mapping[str, KeyInfo]) -> frozenset[str]:
    """Every table that known keys lie in: ``policy``, ``policy.slack``, ..."""
    return frozenset(
        ".".join(parts[:depth])
        for parts in (key.split(".") for key in known)
        for depth in range(1, len(parts))
    )


def nearest(key: str, known: Mapping[str, KeyInfo]) -> str:
    """The known key a user most likely meant: a neighbour spelt alike, then the same name in
    another section, then the most alike of a section spelt alike, then of all."""
    everything = sorted(known)
    section_name, _, name = key.rpartition(".")
    siblings = {word.rpartition(".")[2]: word for word in everything if _in(word, section_name)}
    close = difflib.get_close_matches(name, sorted(siblings), n=1, cutoff=0.7)
    if close:
        return siblings[close[0]]
    section_meant = nearest_section(key, known)
    inside = [word for word in everything if section_meant and word.startswith(f"{section_meant}.")]
    elsewhere = [word for word in everything if word.rpartition(".")[2] == name]
    alike = difflib.get_close_matches(key, elsewhere or inside or everything, n=1, cutoff=0.0)
    return alike[0]


def nearest_words(key: str, known: Mapping[str, KeyInfo]) -> str:
    """What helps who wrote ``key``, which is not known: the nearest key, or the keys of the section
    that stands in another one (``timeouts.retries``)."""
    name = key.rpartition(".")[2]
    if name != key and name in sections_of(known):
        return f"{name} is a section of its own: {keys_in(name, known)}"
    return f"the nearest is {nearest(key, known)}"


def nearest_section(key: str, known: Mapping[str, KeyInfo]) -> str | None:
    """The section that is spelt alike; None: there is none."""
    close = difflib.get_close_matches(key, sorted(sections_of(known)), n=1, cutoff=0.7)
    return close[0] if close else None


def keys_in(section_name: str, known: Mapping[str, KeyInfo]) -> str:
    """``its keys are policy.slack.session and policy.slack.prefix``: of many the first ones."""
    inside = [word for word in known if word.startswith(f"{section_name}.")]
    if len(inside) == 1:
        return f"its key is {inside[0]}"
    if len(inside) > KEYS_SHOWN:
        return f"its keys are {', '.join(inside[:KEYS_SHOWN])} and {len(inside) - KEYS_SHOWN} more"
    return f"its keys are {', '.join(inside[:-1])} and {inside[-1]}"


def _in(word: str, section_name: str) -> bool:
    return word.rpartition(".")[0] == section_name
