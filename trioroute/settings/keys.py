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
    """The known key or section a user most likely meant: a neighbour spelt alike, then the same
    name in another section, then the most alike of all."""
    everything = sorted({*known, *sections_of(known)})
    section_name, _, name = key.rpartition(".")
    siblings = {word.rpartition(".")[2]: word for word in everything if _in(word, section_name)}
    close = difflib.get_close_matches(name, sorted(siblings), n=1, cutoff=0.7)
    if close:
        return siblings[close[0]]
    elsewhere = [word for word in everything if word.rpartition(".")[2] == name]
    alike = difflib.get_close_matches(key, elsewhere or everything, n=1, cutoff=0.0)
    return alike[0]


def _in(word: str, section_name: str) -> bool:
    return word.rpartition(".")[0] == section_name
