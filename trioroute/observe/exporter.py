"""/metrics: the state as Prometheus reads it, in text and in OpenMetrics.

A page of a thousand series takes longer to write than the loop may stand still. So it is written
in slices with a checkpoint between them, and kept for a second: the state may move between two
slices, which Prometheus cannot tell from a scrape a moment later. A worker thread lost: it would
hold the interpreter just as long, and need a copy of the state.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, cast

import attrs
import trio
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from trioroute.observe.folded import REPLICAS, REQUESTS
from trioroute.observe.measured import PROCESS
from trioroute.observe.pool_series import POOLS
from trioroute.observe.sight import look
from trioroute.observe.timings import LogView, Timings
from trioroute.projections import State

SERIES = (*REQUESTS, *POOLS, *REPLICAS, *PROCESS)
KEPT_MS = 1000
SLICE_SAMPLES = 100
"""Samples written between two checkpoints: under a millisecond as text."""

Format = Literal["text", "openmetrics"]
CONTENT_TYPES: dict[Format, str] = {
    "text": "text/plain; version=0.0.4; charset=utf-8",
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
_OPENMETRICS = "application/openmetrics-text"
_EOF = b"# EOF\n"
_openmetrics_text: Callable[[CollectorRegistry], bytes] = openmetrics.generate_latest


@attrs.frozen(slots=True, eq=False)
class StateCollector:
    """A custom collector: each family is read from the state at the moment it is asked for."""

    state: Callable[[], State]
    now_ms: Callable[[], int]
    timings: Timings
    log: LogView
    version: str

    def describe(self) -> Iterator[Metric]:
        """Names and types only, so that registering does not read the state."""
        return (series.family(None) for series in SERIES)

    def collect(self) -> Iterator[Metric]:
        sight = look(self.state(), self.now_ms(), self.timings, self.log, self.version)
        return (series.family(sight) for series in SERIES)


@attrs.frozen(slots=True)
class Page:
    at_ms: int
    content_type: str
    body: bytes


class Exporter:
    """Writes pages. ``registry`` is its own and may take further collectors."""

    def __init__(self, collector: StateCollector) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(collector)
        self._now_ms = collector.now_ms
        self._pages: dict[Format, Page] = {}
        self._writing = trio.Lock()

    async def page(self, accept: str) -> Page:
        """The page in the format that ``accept`` (an Accept header) likes best.

        At most ``KEPT_MS`` old; whoever asks while it is being written waits for that one.
        """
        wanted = negotiate(accept)
        async with self._writing:
            kept = self._pages.get(wanted)
            if kept is None or not 0 <= self._now_ms() - kept.at_ms < KEPT_MS:
                kept = self._pages[wanted] = await self._write(wanted)
            return kept

    async def _write(self, wanted: Format) -> Page:
        at_ms = self._now_ms()
        pieces: list[bytes] = []
        for family in self.registry.collect():
            for start in range(0, max(1, len(family.samples)), SLICE_SAMPLES):
                pieces.append(_slice(family, start, wanted))
                await trio.lowlevel.checkpoint()
        if wanted == "openmetrics":
            pieces.append(_EOF)
        return Page(at_ms, CONTENT_TYPES[wanted], b"".join(pieces))


@attrs.frozen(slots=True)
class _One:
    """What the writers of prometheus_client ask of a registry, with a part of one family."""

    part: Metric

    def collect(self) -> Iterable[Metric]:
        return (self.part,)


def _slice(family: Metric, start: int, wanted: Format) -> bytes:
    """The text of some samples of a family, below its head if they are its first ones."""
    part = Metric(family.name, family.documentation, family.type, family.unit)
    part.samples = family.samples[start : start + SLICE_SAMPLES]
    registry = cast("CollectorRegistry", _One(part))  # the writers only call collect()
    if wanted == "openmetrics":
        text = _openmetrics_text(registry).removesuffix(_EOF)
    else:
        text = generate_latest(registry)
    if start == 0:
        return text
    return b"".join(line for line in text.splitlines(True) if not line.startswith(b"# "))


def negotiate(accept: str) -> Format:
    """OpenMetrics 1.x if it is named and not liked less than text (RFC 9110, 12.5.1)."""
    text_q = openmetrics_q = 0.0
    for offer in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in offer.split(";"))
        values = dict(part.split("=", 1) for part in parameters if "=" in part)
        if kind in ("text/plain", "text/*", "*/*"):
            text_q = max(text_q, _quality(values))
        elif kind == _OPENMETRICS and values.get("version", "1.0.0").startswith("1."):
            openmetrics_q = max(openmetrics_q, _quality(values))
    return "openmetrics" if openmetrics_q and openmetrics_q >= text_q else "text"


def _quality(parameters: dict[str, str]) -> float:
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 0.0
