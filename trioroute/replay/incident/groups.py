"""Who was hit: counts by model and name of the API key."""

from collections.abc import Mapping

import attrs

from trioroute.replay.incident.told import Hit
from trioroute.replay.plain import Who
from trioroute.replay.usual import Usuals

GROUPS_MAX = 200
"""Pairs of model and key that are told apart; the rest is one."""

REST = "(others)"


@attrs.define
class Group:
    """``rescued``: requests that were tried again and got an answer."""

    requests: int = 0
    failed: int = 0
    retried: int = 0
    rescued: int = 0
    refused: int = 0
    delayed: int = 0


def hit_of(groups: Mapping[Who, Group], usuals: Usuals) -> list[Hit]:
    """One row a model and key, the hardest hit first."""
    rows = [_hit(who, one, usuals) for who, one in groups.items()]
    return sorted(rows, key=lambda one: (-one.failed - one.refused, -one.retried, -one.requests))


def _hit(who: Who, group: Group, usuals: Usuals) -> Hit:
    known = usuals.knows(who[0]) or group.delayed
    return Hit(
        model=who[0],
        key=who[1],
        requests=group.requests,
        failed=group.failed,
        retried=group.retried,
        delayed=group.delayed if known else None,
        refused=group.refused,
        rescued=group.rescued,
    )
