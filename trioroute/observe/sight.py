"""What one look at the state finds, with every label value bounded."""

from collections.abc import Iterable
from itertools import islice

import attrs

from trioroute.observe.pools import Pool, pools
from trioroute.observe.rows import MODELS_SHOWN, Row, rows
from trioroute.observe.timings import LogView, Timings
from trioroute.projections import State
from trioroute.projections.state import OTHER_MODEL


@attrs.frozen(slots=True)
class Sight:
    """Everything a rendering of /metrics reads. ``at_ms`` is never before the last event."""

    state: State
    at_ms: int
    timings: Timings
    log: LogView
    version: str
    rows: tuple[Row, ...]
    pools: tuple[Pool, ...]
    models: frozenset[str]

    @property
    def names(self) -> Iterable[str]:
        return (row.name for row in self.rows)

    def model(self, name: str) -> str:
        """The label of a model that the tally counted under ``name``."""
        return name if name in self.models else OTHER_MODEL


def look(state: State, now_ms: int, timings: Timings, log: LogView, version: str) -> Sight:
    at_ms = max(now_ms, state.at_ms)
    shown = frozenset(islice(state.fleet.seen_models, MODELS_SHOWN))
    seen = rows(state, at_ms)
    found = tuple(pools(state, seen, at_ms))
    return Sight(state, at_ms, timings, log, version, seen, found, shown)
