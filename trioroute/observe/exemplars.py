"""Exemplars: for each bucket of a histogram the last decision that fell into it.

So a slow bar of a graph leads to a decision, and ``/decisions`` or ``trioroute replay`` tells why.
They are no part of the fold: after a restart they begin anew.
"""

from bisect import bisect_left
from collections.abc import Sequence

import attrs

from trioroute.events import Dispatched, Event, Failed, Released
from trioroute.projections.tally import BOUNDS_MS
from trioroute.router import UNLOGGED

Last = tuple[int, int, int]
"""A decision's number, what was measured of it in ms, and when. Made twice for each request: a
class of attrs takes five times as long."""

ByModel = dict[str, list[Last | None]]
"""One place for each bucket; a model has as many series anyway."""

PLACES = len(BOUNDS_MS) + 1


@attrs.define(slots=True)
class Exemplars:
    ttfb: ByModel = attrs.field(factory=dict)
    duration: ByModel = attrs.field(factory=dict)
    _models: dict[int, str] = attrs.field(factory=dict)
    """Of the dispatches under way: an end does not name its model."""

    def note(self, first: int, events: Sequence[Event], at_ms: int) -> None:
        """Plain and quick: called after each decision. What no log holds is no exemplar."""
        for number, event in enumerate(events, start=first):
            kind = type(event)
            if kind is Dispatched:
                assert isinstance(event, Dispatched)
                if number <= UNLOGGED:
                    self._models[number] = event.model
            elif kind is Released:
                assert isinstance(event, Released)
                self._ended(event, at_ms)
            elif kind is Failed:
                assert isinstance(event, Failed)
                self._models.pop(event.dispatch, None)

    def _ended(self, event: Released, at_ms: int) -> None:
        number = event.dispatch
        model = self._models.pop(number, None)
        if model is None:
            return
        duration = self.duration.get(model)
        if duration is None:
            duration = self.duration[model] = [None] * PLACES
            self.ttfb[model] = [None] * PLACES
        ms = event.duration_ms
        duration[bisect_left(BOUNDS_MS, ms)] = (number, ms, at_ms)
        first_ms = event.ttfb_ms
        if first_ms is not None:
            self.ttfb[model][bisect_left(BOUNDS_MS, first_ms)] = (number, first_ms, at_ms)


def merged(some: Sequence[Sequence[Last | None]]) -> list[Last | None]:
    """The newest for each bucket, of models that share a label."""
    return [
        max((one for one in bucket if one is not None), key=lambda one: one[2], default=None)
        for bucket in zip(*some, strict=True)
    ]
