"""Who was hit: counts by model and name of the API key."""

from collections import Counter
from collections.abc import Mapping

import attrs

from trioroute.replay.incident.bins import edge_of
from trioroute.replay.incident.delays import Border, border_of
from trioroute.replay.incident.told import Hit
from trioroute.replay.plain import Who

GROUPS_MAX = 200
"""Pairs of model and key that are told apart; the rest is one."""

REST = "(others)"


@attrs.define
class Group:
    """``rescued``: requests that were tried again and got an answer. ``usual`` and ``late``
    count answers of normal phases and of others by the bin of their time to first byte."""

    requests: int = 0
    failed: int = 0
    retried: int = 0
    rescued: int = 0
    refused: int = 0
    usual: Counter[int] = attrs.field(factory=Counter)
    late: Counter[int] = attrs.field(factory=Counter)


def borders_of(groups: Mapping[Who, Group]) -> dict[str | None, Border]:
    """By model, from when on a first byte is late."""
    normal: dict[str | None, list[Counter[int]]] = {}
    for (model, _), group in groups.items():
        normal.setdefault(model, []).append(group.usual)
    return {model: border_of(model, bins) for model, bins in normal.items()}


def latest_of(groups: Mapping[Who, Group]) -> int | None:
    """No good answer had its first byte so late or later, exact to a quarter; None without any."""
    bins = [at for group in groups.values() for at in (*group.usual, *group.late)]
    return edge_of(max(bins) + 1) if bins else None


def hit_of(groups: Mapping[Who, Group], borders: Mapping[str | None, Border]) -> list[Hit]:
    """One row a model and key, the hardest hit first."""
    rows = [_hit(who, one, borders[who[0]].from_bin) for who, one in groups.items()]
    return sorted(rows, key=lambda one: (-one.failed - one.refused, -one.retried, -one.requests))


def _hit(who: Who, group: Group, from_bin: int | None) -> Hit:
    late = group.late.items()
    return Hit(
        model=who[0],
        key=who[1],
        requests=group.requests,
        failed=group.failed,
        retried=group.retried,
        delayed=None if from_bin is None else sum(n for at, n in late if at >= from_bin),
        refused=group.refused,
        rescued=group.rescued,
    )
