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


@attrs.frozen(slots=True)
class Last:
    """A decision's number, what was measured of it, and when."""

    number: int
    value_ms: int
    at_ms: int


ByModel = dict[str, list[Last | None]]
"""One place for each bucket; a model has as many series anyway."""


@attrs.define(slots=True)
class Exemplars:
    ttfb: ByModel = attrs.field(factory=dict)
    duration: ByModel = attrs.field(factory=dict)
    _models: dict[int, str] = attrs.field(factory=dict)
    """Of the dispatches under way: an end does not name its model."""

    def note(self, first: int, events: Sequence[Event], at_ms: int) -> None:
        """Plain and quick: called after each decision. What no log holds is no exemplar."""
        for number, event in enumerate(events, start=first):
            if type(event) is Dispatched:
                if number <= UNLOGGED:
                    self._models[number] = event.model
            elif type(event) is Released:
                model = self._models.pop(event.dispatch, None)
                if model is not None:
                    if event.ttfb_ms is not None:
                        _keep(self.ttfb, model, Last(event.dispatch, event.ttfb_ms, at_ms))
                    _keep(self.duration, model, Last(event.dispatch, event.duration_ms, at_ms))
            elif type(event) is Failed:
                self._models.pop(event.dispatch, None)


def _keep(kept: ByModel, model: str, last: Last) -> None:
    places = kept.get(model)
    if places is None:
        places = kept[model] = [None] * (len(BOUNDS_MS) + 1)
    places[bisect_left(BOUNDS_MS, last.value_ms)] = last


def merged(some: Sequence[Sequence[Last | None]]) -> list[Last | None]:
    """The newest for each bucket, of models that share a label."""
    return [
        max((one for one in bucket if one is not None), key=lambda one: one.at_ms, default=None)
        for bucket in zip(*some, strict=True)
    ]
