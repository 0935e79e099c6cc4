"""Two logs side by side: before and after a change."""

from collections import Counter
from collections.abc import Callable

import attrs

from trioroute.events import (
    Dispatched,
    Ejected,
    Event,
    Failed,
    Rebound,
    Refused,
    Released,
    Spilled,
)
from trioroute.replay.incident.traffic import NOT_FAILED
from trioroute.replay.read import Source
from trioroute.replay.significance import Sample, mann_whitney

_KINDS = frozenset({"Dispatched", "Released", "Failed", "Refused", "Ejected", "Spilled", "Rebound"})


@attrs.frozen(kw_only=True)
class Spread:
    """Milliseconds; ``count`` is how many told theirs, None without any."""

    count: int
    p50_ms: int | None
    p90_ms: int | None
    p99_ms: int | None


@attrs.frozen(kw_only=True)
class Side:
    """One log. ``replicas`` and ``reasons`` count decisions, ``failed`` what clients saw fail."""

    log: str
    begin_ms: int
    end_ms: int
    decisions: int
    failed: int
    refused: int
    retried: int
    ejects: int
    spills: int
    rebinds: int
    ttfb: Spread
    duration: Spread
    replicas: dict[str, int]
    reasons: dict[str, int]


@attrs.frozen(kw_only=True)
class Compared:
    """``slower``: the share of pairs in which the other log's first byte came later; ``p`` by the
    Mann-Whitney test. None where too few requests tell their time."""

    log: Side
    other: Side
    slower: float | None
    p: float | None
    sentence: str


@attrs.define
class _Counted:
    counts: Counter[str] = attrs.field(factory=Counter)
    replicas: Counter[str] = attrs.field(factory=Counter)
    reasons: Counter[str] = attrs.field(factory=Counter)
    ttfb: Sample = attrs.field(factory=Sample)
    duration: Sample = attrs.field(factory=Sample)

    def take(self, event: Event) -> None:
        match event:
            case Dispatched():
                self.counts["decisions"] += 1
                self.counts["retried"] += event.attempt == 2
                self.replicas[event.replica] += 1
                self.reasons[event.reason] += 1
            case Released():
                self.counts["failed"] += event.outcome not in NOT_FAILED
                if event.outcome == "ok":
                    self.duration.add(event.duration_ms)
                    if event.ttfb_ms is not None:
                        self.ttfb.add(event.ttfb_ms)
            case Refused():
                self.counts["refused"] += 1
            case Ejected():
                self.counts["ejects"] += 1
            case Spilled():
                self.counts["spills"] += 1
            case Rebound():
                self.counts["rebinds"] += 1
            case Failed():
                self.counts["attempts failed"] += 1


Progress = Callable[[int, int], None]


def compare(
    source: Source, other: Source, names: tuple[str, str], progress: Progress | None = None
) -> Compared:
    """Read both logs once. Raises NotFound for an empty one, CannotRead."""
    heads = (source.reader.head().seq, other.reader.head().seq)
    told = progress or (lambda done, of: None)
    total = sum(heads)
    first, log = _read(source, names[0], lambda seq: told(seq, total))
    second, after = _read(other, names[1], lambda seq: told(heads[0] + seq, total))
    tested = mann_whitney(first.ttfb.values, second.ttfb.values)
    return Compared(
        log=log,
        other=after,
        slower=None if tested is None else round(tested.greater, 4),
        p=None if tested is None else tested.p,
        sentence=_sentence(None if tested is None else (tested.greater, tested.p)),
    )


def _read(source: Source, name: str, progress: Callable[[int], None]) -> tuple[_Counted, Side]:
    counted, end = _Counted(), source.last()
    begin_ms = next(source.records()).at_ms
    for record in source.records(0, end.seq):
        if record.kind in _KINDS:
            event = source.event(record)
            if event is not None:
                counted.take(event)
        if record.seq % 1000 == 0:
            progress(record.seq)
    counts = counted.counts
    return counted, Side(
        log=name,
        begin_ms=begin_ms,
        end_ms=end.at_ms,
        decisions=counts["decisions"],
        failed=counts["failed"],
        refused=counts["refused"],
        retried=counts["retried"],
        ejects=counts["ejects"],
        spills=counts["spills"],
        rebinds=counts["rebinds"],
        ttfb=_spread(counted.ttfb),
        duration=_spread(counted.duration),
        replicas=dict(sorted(counted.replicas.items())),
        reasons=dict(sorted(counted.reasons.items())),
    )


def _spread(sample: Sample) -> Spread:
    return Spread(
        count=sample.seen,
        p50_ms=sample.quantile(0.5),
        p90_ms=sample.quantile(0.9),
        p99_ms=sample.quantile(0.99),
    )


SURE = 0.01
"""A difference is called one below this p: requests of one log are not independent of each other,
and the usual 0.05 would call too much a difference."""


def _sentence(tested: tuple[float, float] | None) -> str:
    if tested is None:
        return "first bytes: too few requests tell their time for a comparison"
    greater, p = tested
    chance = "p < 0.0001" if p < 0.0001 else f"p = {p:.4f}"
    pairs = f"in {greater:.1%} of pairs the other log's is the later one, 50 % is no difference"
    if p >= SURE:
        return f"first bytes: no difference that chance would not explain ({pairs}; {chance})"
    which = "later" if greater > 0.5 else "sooner"
    return f"first bytes come {which} in the other log ({pairs}; {chance})"
