"""An explanation in the words of the naive reader, so that the two can be compared."""

import random
from collections.abc import Sequence

import attrs

from eventlog.record import Entry
from tests.replay.naive import Naive, Seen, Verdict
from tests.replay.rig import STREAM
from trioroute.replay.explain import tell_all
from trioroute.replay.read import Source
from trioroute.replay.told import ReplicaSeen, Told


def numbers_of(entries: Sequence[Entry]) -> list[int]:
    return [number for number, entry in enumerate(entries, 1) if entry.kind == "Dispatched"]


def explained(told: Told) -> Verdict:
    """The explanation in the words of the naive reader."""
    pin, left = told.pin, {step.number: step.left for step in told.steps}
    over = told.steps[3].dropped  # the least loaded, where a pin goes before it
    return Verdict(
        told.replica,
        told.reason,
        tuple(_seen(one) for one in told.replicas),
        () if told.reason == "fallback" else left[1],
        left[2],
        None if not left[3] else over[0].replica if over else left[3][0],
        told.min_running_m,
        None if pin is None else (pin.kind, pin.key, pin.replica, pin.spills, pin.usable),
    )


def _seen(one: ReplicaSeen) -> Seen:
    return Seen(**{**attrs.asdict(one, recurse=False), "flags": frozenset(one.flags)})


def compared(source: Source, most: int, seed: int = 1) -> list[Told]:
    """So many decisions of a log, chosen by chance, as replay explains them: each verified, and
    winner, reason, candidates, numbers and pin the same as the naive reader derives from the rows.
    """
    entries = [
        Entry(row.kind, row.schema, row.at_ms, row.seen, row.body) for row in source.records()
    ]
    numbers = numbers_of(entries)
    chosen = sorted(random.Random(seed).sample(numbers, min(most, len(numbers))))
    naive = Naive(entries)
    found = []
    for told in tell_all(source, STREAM, chosen):
        assert told.verified, told.decision
        assert explained(told) == naive.decide(told.number), told.decision
        found.append(told)
    return found
