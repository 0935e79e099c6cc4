"""The replicas of the fleet as one look at the state finds them."""

from collections.abc import Sequence

import attrs

from trioroute.projections import Health, ReplicaLoad, State
from trioroute.projections.measure import ROUTABLE, Measured

MODELS_SHOWN = 100
"""Models with series of their own: the first that were served. The rest shares ``other``, so a
fleet that keeps loading new adapters cannot flood Prometheus; first come keeps counters monotone.
"""


@attrs.frozen(slots=True)
class Row:
    """One replica of the fleet as it is now."""

    name: str
    standing: str
    load: ReplicaLoad
    measured: Measured
    health: Health

    def cooldown_ms(self, at_ms: int) -> int:
        """How long it stays EJECTED at least; 0 in every other state."""
        return max(0, self.health.until_ms - at_ms) if self.health.stage == "EJECTED" else 0

    @property
    def kv(self) -> float | None:
        """Share of KV blocks in use by the last reading; None: never read, or not told."""
        last = self.load.last
        return None if last is None or last.kv_m is None else last.kv_m / 1000


def rows(state: State, at_ms: int) -> tuple[Row, ...]:
    """The fleet in order of joining."""
    nothing = ReplicaLoad()
    return tuple(
        Row(
            name,
            state.standing(name),
            state.load.replicas.get(name, nothing),
            state.measure(name, at_ms),
            state.health[name],
        )
        for name in state.fleet.replicas
    )


def scores(seen: Sequence[Row]) -> dict[str, float]:
    """The composite score of each replica, 0 to 1: see ``trioroute_replica_score``.

    For eyes only, never part of a choice (RULES 1).
    """
    most_m = max((row.measured.effective_running_m for row in seen), default=0)
    return {row.name: _score(row, most_m) for row in seen}


def _score(row: Row, most_m: int) -> float:
    if row.standing not in ROUTABLE:
        return 0.0
    now = row.measured
    load = now.effective_running_m / most_m if most_m else 0.0
    present_m = now.running_m + now.waiting_m
    queue = now.waiting_m / present_m if present_m else 0.0
    return 1 - 0.5 * load - 0.3 * queue - 0.2 * min(1.0, row.kv or 0.0)


def share(state: State, at_ms: int) -> dict[str, float]:
    """Each replica's part of the dispatches of the last five minutes, 0 to 1."""
    counts = state.tally.traffic(at_ms)
    total = sum(counts.values())
    return {name: counts.get(name, 0) / total if total else 0.0 for name in state.fleet.replicas}
