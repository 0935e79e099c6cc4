"""Dialects: how one kind of engine names its load. One module each, registered here by hand."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from trioroute.scrape import vllm
from trioroute.scrape.exposition import Sample
from trioroute.scrape.page import PageReading


class Dialect(Protocol):
    """What a dialect module offers: the names to look for, and what they mean together."""

    WANTED: tuple[str, ...]

    def fold(self, samples: Iterable[Sample]) -> PageReading: ...


ENGINES: Mapping[str, Dialect] = {"vllm": vllm}
"""By the value of ``engine`` in the configuration."""


class UnknownEngine(ValueError):
    """No dialect of that name."""


def dialect_for(engine: str) -> Dialect:
    """The dialect of an engine. Raises ``UnknownEngine``, which names the known ones."""
    try:
        return ENGINES[engine]
    except KeyError:
        known = ", ".join(sorted(ENGINES))
        raise UnknownEngine(f"engine {engine!r} is not known; known engines: {known}") from None
