"""Dialects: how one kind of engine names its load, registered here by hand."""

from collections.abc import Iterable, Mapping
from typing import Protocol

import attrs

from trioroute.scrape import named, vllm
from trioroute.scrape.exposition import Sample
from trioroute.scrape.page import PageReading


class Dialect(Protocol):
    """Where the page is, empty if there is none (then ``/health`` alone is asked), the names to
    look for on it, and what they mean together."""

    @property
    def path(self) -> str: ...

    @property
    def wanted(self) -> tuple[str, ...]: ...

    def fold(self, samples: Iterable[Sample]) -> PageReading: ...


@attrs.frozen
class _Vllm:
    path: str = named.METRICS
    wanted: tuple[str, ...] = vllm.WANTED

    def fold(self, samples: Iterable[Sample]) -> PageReading:
        return vllm.fold(samples)


GENERIC = "generic"
NO_METRICS = "none"
ENGINES: Mapping[str, Dialect] = {
    "vllm": _Vllm(),
    "sglang": named.SGLANG,
    "llamacpp": named.LLAMACPP,
    "tgi": named.TGI,
    "lmdeploy": named.LMDEPLOY,
    "trtllm": named.TRTLLM,
    GENERIC: named.Names(path=""),
    NO_METRICS: named.Names(path=""),
}
"""By the value of ``engine`` in the configuration. ``generic`` has the names that settings give."""


class UnknownEngine(ValueError):
    """No dialect of that name."""


def dialect_for(engine: str, generic: Dialect | None = None) -> Dialect:
    """The dialect of an engine. Raises ``UnknownEngine``, which names the known ones."""
    if engine == GENERIC and generic is not None:
        return generic
    try:
        return ENGINES[engine]
    except KeyError:
        known = ", ".join(sorted(ENGINES))
        raise UnknownEngine(f"engine {engine!r} is not known; known engines: {known}") from None
