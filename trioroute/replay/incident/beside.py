"""The paces of a replica's answers beside those of like answers of the rest of its pool."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

import attrs

from trioroute.replay.incident.asked import Asked, Kind, Paced
from trioroute.replay.incident.times import bin_within, count_up_to

ANSWERS_MIN, OTHERS_MIN, LIKE_MIN = 5, 10, 3
"""Fewer answers of the replica, fewer of the others that are like them, or fewer of one kind, do
not say that it is slow."""

Paces = Mapping[Kind, bytes | bytearray]
Usual = dict[Kind, int]
"""The middle pace of the others."""

Served = tuple[str, str | None]
"""A replica, and a model that it served."""

_SAME = 128
"""A pace less the usual one, where both are the same, as a byte."""


@attrs.frozen
class Beside:
    """What was ``asked`` of a replica in a step of time, the paces of that, and those of its whole
    ``pool``, of each kind its own from ``begins`` on."""

    number: int
    asked: Asked
    mine: Paces
    pool: Paces
    begins: Mapping[Kind, int]

    def others(self, kind: Kind) -> bytes:
        """The paces of the rest of its pool."""
        begin, whole = self.begins.get(kind, 0), self.pool.get(kind, b"")
        return bytes(whole[:begin] + whole[begin + len(self.mine.get(kind, b"")) :])

    def count_others(self, kind: Kind) -> int:
        return len(self.pool.get(kind, b"")) - len(self.mine.get(kind, b""))


def beside(number: int, window: Mapping[Served, Asked]) -> dict[Served, Beside]:
    """Each replica in a step of time. A pool are those that served the same model."""
    pools = defaultdict[str | None, defaultdict[Kind, bytearray]](lambda: defaultdict(bytearray))
    found = dict[Served, Beside]()
    for served, asked in window.items():
        mine, pool, begins = asked.by_kind(), pools[served[1]], dict[Kind, int]()
        for kind, paces in mine.items():
            begins[kind] = len(pool[kind])
            pool[kind] += paces
        found[served] = Beside(number, asked, mine, pool, begins)
    return found


def joined(steps: Sequence[Beside]) -> tuple[dict[Kind, bytes], dict[Kind, bytes]]:
    """The paces of a replica in several steps of time, and those of the others that are like
    them."""
    kinds = {kind for one in steps for kind in one.mine}
    mine = {kind: b"".join(one.mine.get(kind, b"") for one in steps) for kind in kinds}
    return mine, {kind: b"".join(one.others(kind) for one in steps) for kind in kinds}


def surely_not_later(steps: Sequence[Beside], by: int) -> bool:
    """Whether the answers of its commonest kind show alone that the middle one of all is not so
    many steps of a pace slower than usual: half of all are of that kind, and are not.

    It is so nearly always, and asked in a tenth of the time that looking at all kinds takes.
    """
    commonest = max(steps[0].mine.items(), key=lambda one: len(one[1]), default=None)
    if commonest is None:
        return False
    kind = commonest[0]
    mine = b"".join(one.mine.get(kind, b"") for one in steps)
    others = sum(one.count_others(kind) for one in steps)
    half = -(-sum(map(len, (paces for one in steps for paces in one.mine.values()))) // 2)
    if len(mine) < max(half, ANSWERS_MIN) or others < max(OTHERS_MIN, LIKE_MIN):
        return False
    least = sorted(mine)[half - 1] - by
    pool = b"".join(one.pool.get(kind, b"") for one in steps)
    return count_up_to(least, pool) - count_up_to(least, mine) < -(-others // 2)


def usual_of(mine: Paces, others: Paces) -> Usual | None:
    """What like answers of the others usually take; None where too few tell it."""
    like = [kind for kind in mine if len(others.get(kind, b"")) >= LIKE_MIN]
    if sum(len(mine[kind]) for kind in like) < ANSWERS_MIN:
        return None
    if sum(len(others[kind]) for kind in like) < OTHERS_MIN:
        return None
    return {kind: bin_within(others[kind], 500) for kind in like}


def steps_later(mine: Paces, others: Paces, usual: Usual) -> int | None:
    """How many steps of a pace the middle one of ``mine`` is slower than usual; None where one in
    four of them is as fast as one in four of the others: a mixture is no slowness."""
    ours, theirs = _less(mine, usual), _less(others, usual)
    if bin_within(ours, 250) <= bin_within(theirs, 750):
        return None
    return bin_within(ours, 500) - _SAME


def later_than_usual(one: Paced, usual: Usual) -> int | None:
    """The same of one answer; None where nothing says what is usual for it."""
    return one.step - usual[one.kind] if one.kind in usual else None


def _less(paces: Paces, usual: Usual) -> bytes:
    return b"".join(paces[kind].translate(_less_by(step)) for kind, step in usual.items())


@lru_cache(maxsize=256)
def _less_by(usual: int) -> bytes:
    return bytes(min(255, max(0, step - usual + _SAME)) for step in range(256))
