"""The paces of a replica's answers beside those of like answers of the rest of its pool."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache

from trioroute.replay.incident.times import Few, Paced, bin_within
from trioroute.replay.pace import is_stream, parted

ANSWERS_MIN, OTHERS_MIN, LIKE_MIN = 5, 10, 3
"""Fewer answers of the replica, fewer of the others that are like them, or fewer of one kind, do
not say that it is slow."""

Kind = tuple[int, int | None]
"""Answers that are compared: the kind of pace, and of a whole one, which has the time to its first
byte in it, the size of its prompt."""

Paces = Mapping[Kind, bytes | bytearray]
Usual = dict[Kind, int]
"""The middle pace of the others."""

Served = tuple[str, str | None]
"""A replica, and a model that it served."""

_SAME = 128
"""A pace less the usual one, where both are the same, as a byte."""


def beside(window: Mapping[Served, Few]) -> Iterator[tuple[Served, Few, Paces, Paces]]:
    """The paces of each in a step of time, and those of the others that served the same model."""
    own = {served: _by_kind(few.paces) for served, few in window.items()}
    pools = defaultdict[str | None, defaultdict[Kind, list[Served]]](lambda: defaultdict(list))
    for served, paces in own.items():
        for kind in paces:
            pools[served[1]][kind].append(served)
    whole = {
        (model, kind): b"".join(own[one][kind] for one in who)
        for model, kinds in pools.items()
        for kind, who in kinds.items()
    }
    done = defaultdict[tuple[str | None, Kind], int](int)
    for served, few in window.items():
        others = dict[Kind, bytes]()
        for kind in pools[served[1]]:
            place, all_of_them = (served[1], kind), whole[served[1], kind]
            begin, end = done[place], done[place] + len(own[served].get(kind, b""))
            others[kind] = all_of_them[:begin] + all_of_them[end:]
            done[place] = end
        yield served, few, own[served], others


def _by_kind(paces: list[Paced]) -> dict[Kind, bytearray]:
    found = defaultdict[Kind, bytearray](bytearray)
    for pace, size, _, _ in paces:
        kind, step = _kind_of(pace, size)
        found[kind].append(step)
    return found


@lru_cache(maxsize=1 << 13)
def _kind_of(pace: int, size: int | None) -> tuple[Kind, int]:
    """Remembered, for every answer of a span is asked and few of them differ."""
    kind, step = parted(pace)
    return (kind, None if is_stream(kind) else size), step


def joined(paces: list[Paces]) -> dict[Kind, bytes]:
    """Those of several steps of time."""
    kinds = {kind for one in paces for kind in one}
    return {kind: b"".join(one[kind] for one in paces if kind in one) for kind in kinds}


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
    kind, step = _kind_of(one[0], one[1])
    return step - usual[kind] if kind in usual else None


def _less(paces: Paces, usual: Usual) -> bytes:
    return b"".join(paces[kind].translate(_less_by(step)) for kind, step in usual.items())


@lru_cache(maxsize=256)
def _less_by(usual: int) -> bytes:
    return bytes(min(255, max(0, step - usual + _SAME)) for step in range(256))
