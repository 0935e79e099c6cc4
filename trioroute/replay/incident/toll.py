"""What harm was done to clients, by model and replica: which trouble can have done it."""

from collections import Counter
from collections.abc import Collection, Mapping

import attrs

TOLL_MAX = 10_000
"""Pairs of model and replica that are told apart; the harm of further ones is not kept."""


@attrs.define
class Toll:
    """``by`` holds, by model and replica (None: the request ran on none), the first and the last
    time a client was harmed. ``moved`` counts requests that failed on a replica and went on
    elsewhere."""

    by: dict[tuple[str | None, str | None], tuple[int, int]] = attrs.field(factory=dict)
    moved: Counter[str] = attrs.field(factory=Counter)

    def take(self, at_ms: int, model: str | None, replica: str | None) -> None:
        known = self.by.get((model, replica))
        if known is not None:
            self.by[(model, replica)] = (min(known[0], at_ms), max(known[1], at_ms))
        elif len(self.by) < TOLL_MAX:
            self.by[(model, replica)] = (at_ms, at_ms)

    def first_of(self, back: Mapping[str, int | None], models: Collection[str]) -> int | None:
        """When the first client was harmed that these replicas, out of traffic at first, can have
        harmed: a request failed on one of them, or one for a model of theirs, or for none that is
        known, was refused. ``back``: when each of them was in traffic again (None: it was not);
        what came after that is not theirs."""
        never = None in back.values()
        all_ms = None if never else max((ms for ms in back.values() if ms is not None), default=0)
        times = list[int]()
        for (model, replica), (first_ms, _) in self.by.items():
            if replica is None:
                theirs, until_ms = model is None or model in models, all_ms
            else:
                theirs, until_ms = replica in back, back.get(replica)
            if theirs and (until_ms is None or first_ms <= until_ms):
                times.append(first_ms)
        return min(times, default=None)

    def on(
        self, replica: str, models: Collection[str] | None, from_ms: int, until_ms: int | None
    ) -> bool:
        """Whether a request failed on a replica at ``from_ms`` or later, or one for a model of it
        was refused then and not only after ``until_ms``, when it was back (None: it was not)."""
        for (model, where), (first_ms, last_ms) in self.by.items():
            if last_ms < from_ms:
                continue
            theirs = models is None or model is None or model in models
            refused = where is None and theirs and (until_ms is None or first_ms <= until_ms)
            if where == replica or refused:
                return True
        return False

    def since(self, at_ms: int, models: Collection[str] | None) -> bool:
        """Whether a client of these models (None: of any) was harmed at ``at_ms`` or later."""
        return any(
            last_ms >= at_ms and (models is None or model is None or model in models)
            for (model, _), (_, last_ms) in self.by.items()
        )
