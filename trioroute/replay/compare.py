"""Two logs side by side: before and after a change."""

from collections import Counter
from collections.abc import Callable

import attrs

from trioroute.events import (
    Dispatched,
    Ejected,
    Event,
    Failed,
    Orphaned,
    Rebound,
    Refused,
    Released,
    Spilled,
)
from trioroute.replay.ahead import rows_within
from trioroute.replay.incident.told import TimeStep
from trioroute.replay.incident.traffic import Traffic
from trioroute.replay.plain import Run
from trioroute.replay.read import Source
from trioroute.replay.significance import BLOCKS, Sample, means_apart, ranks_apart
from trioroute.replay.within import ALL, Within

_KINDS = frozenset(
    {
        "Dispatched",
        "Released",
        "Failed",
        "Orphaned",
        "Refused",
        "Ejected",
        "Spilled",
        "Rebound",
    }
)


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
    requests: int
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
class RowTest:
    """One row of the table: ``p`` by itself, and whether it differs with all rows looked at."""

    name: str
    p: float
    differs: bool


@attrs.frozen(kw_only=True)
class Compared:
    """``slower``: the share of pairs in which the other log's first byte came later, and its ``p``.
    None where too few requests tell their time. ``tests`` are the rows that could be tested."""

    log: Side
    other: Side
    slower: float | None
    p: float | None
    sentence: str
    tests: tuple[RowTest, ...]


@attrs.define
class _Counted:
    """``traffic`` counts by block of rows where an incident counts by step of time."""

    traffic: Traffic
    counts: Counter[str] = attrs.field(factory=Counter)
    replicas: Counter[str] = attrs.field(factory=Counter)
    reasons: list[Counter[str]] = attrs.field(factory=lambda: [Counter() for _ in range(BLOCKS)])
    ttfb: Sample = attrs.field(factory=Sample)
    duration: Sample = attrs.field(factory=Sample)

    def block(self, seq: int) -> int:
        return min((seq - self.traffic.from_ms) // self.traffic.step_ms, BLOCKS - 1)

    def take(self, stream: str, number: int, seq: int, event: Event) -> None:
        traffic = self.traffic
        match event:
            case Dispatched():
                traffic.dispatch(stream, number, seq, event)
                self.replicas[event.replica] += 1
                self.reasons[self.block(seq)][event.reason] += 1
            case Released():
                traffic.release(stream, seq, event)
                if event.outcome == "ok":
                    self.duration.add(self.block(seq), event.duration_ms)
                    if event.ttfb_ms is not None:
                        self.ttfb.add(self.block(seq), event.ttfb_ms)
            case Failed():
                traffic.fail(stream, seq, event)
            case Orphaned():
                traffic.orphan(stream, seq, event)
            case Refused():
                traffic.refuse(seq, event)
            case Ejected():
                self.counts["ejects"] += 1
            case Spilled():
                traffic.spill(event.cause, seq, seq, (seq,))
            case Rebound():
                traffic.rebind(event.cause, seq, seq, (seq,))

    def run(self, run: Run) -> None:
        """As ``take``, of each of many plain rows."""
        begin, stream, traffic = run.seq - run.first, run.stream, self.traffic
        for row in run.moves():
            seq = begin + row[0]
            if len(row) == 4:
                traffic.first((stream, row[0]), seq, row[2], row[3])
                self.replicas[row[2][0]] += 1
                self.reasons[self.block(seq)][row[2][2]] += 1
            else:
                traffic.answered((stream, row[2]), row)
                self.duration.add(self.block(seq), row[4])
                if row[3] is not None:
                    self.ttfb.add(self.block(seq), row[3])
        for fate, pins in run.pins.items():
            count = {"Spilled": traffic.spill, "Rebound": traffic.rebind}.get(fate[0])
            if count is not None:
                places = [begin + version for version in pins.versions]
                count(fate[2], begin + run.first, begin + run.last, places)

    def share(self, name: str) -> list[float]:
        """Of each block's decisions, the share that a row of the table counts."""
        found = []
        for step, reasons in zip(self.traffic.steps, self.reasons, strict=True):
            decisions = sum(step.dispatches.values())
            if decisions:
                kind, _, of = name.partition(" ")
                count = step.dispatches.get(of, 0) if kind == "to" else reasons[of]
                found.append((count if of else getattr(step, kind)) / decisions)
        return found


Progress = Callable[[int, int], None]


def compare(
    source: Source,
    other: Source,
    names: tuple[str, str],
    progress: Progress | None = None,
    withins: tuple[Within, Within] = (ALL, ALL),
) -> Compared:
    """Read both logs once, of each what is ``within``. Raises NotFound where there is nothing to
    read, CannotRead."""
    rows = [_count(log, within) for log, within in zip((source, other), withins, strict=True)]
    told = progress or (lambda done, of: None)
    first, log = _read(source, names[0], withins[0], lambda done: told(done, sum(rows)))
    second, after = _read(other, names[1], withins[1], lambda done: told(rows[0] + done, sum(rows)))
    tested = ranks_apart(first.ttfb, second.ttfb)
    return Compared(
        log=log,
        other=after,
        slower=None if tested is None else round(tested.greater, 4),
        p=None if tested is None else tested.p,
        sentence=_sentence(None if tested is None else (tested.greater, tested.p)),
        tests=_tests(first, second),
    )


def _count(source: Source, within: Within) -> int:
    source.last()  # raises for an empty log
    after, until = within.rows(source)
    return until - after


def _read(
    source: Source, name: str, within: Within, progress: Callable[[int], None]
) -> tuple[_Counted, Side]:
    after, until = within.rows(source)
    begin, end = source.reader.read(after, 1)[0], source.reader.read(until - 1, 1)[0]
    rows = max(1, -(-(end.seq - begin.seq + 1) // BLOCKS))
    counted = _Counted(Traffic(begin.seq, rows, [TimeStep(at_ms=0) for _ in range(BLOCKS)]))
    for row in rows_within(source, within, lambda done, of: progress(done)):
        if isinstance(row, Run):
            counted.run(row)
        elif row.kind in _KINDS and (event := source.event(row)) is not None:
            counted.take(row.stream, row.version, row.seq, event)
    traffic = counted.traffic
    traffic.finish()
    reasons: Counter[str] = Counter()
    for one in counted.reasons:
        reasons.update(one)
    return counted, Side(
        log=name,
        begin_ms=begin.at_ms,
        end_ms=end.at_ms,
        decisions=counted.replicas.total(),
        requests=sum(group.requests for group in traffic.groups.values()),
        failed=sum(step.failed for step in traffic.steps),
        refused=traffic.refusals.total(),
        retried=sum(step.retried for step in traffic.steps),
        ejects=counted.counts["ejects"],
        spills=traffic.spills.total(),
        rebinds=traffic.rebinds.total(),
        ttfb=_spread(counted.ttfb),
        duration=_spread(counted.duration),
        replicas=dict(sorted(counted.replicas.items())),
        reasons=dict(sorted(reasons.items())),
    )


def _tests(first: _Counted, second: _Counted) -> tuple[RowTest, ...]:
    """Every row by itself; one differs if its p is below ``SURE`` by the number of rows."""
    reasons = sorted({name for one in (*first.reasons, *second.reasons) for name in one})
    names = [
        *("failed", "refused", "retried", "spills", "rebinds"),
        *(f"to {name}" for name in sorted({*first.replicas, *second.replicas})),
        *(f"reason {name}" for name in reasons),
    ]
    found = {name: means_apart(first.share(name), second.share(name)) for name in names}
    for name, mine, theirs in (
        ("first byte", first.ttfb, second.ttfb),
        ("whole answer", first.duration, second.duration),
    ):
        tested = ranks_apart(mine, theirs)
        found[name] = None if tested is None else tested.p
    told = {name: p for name, p in found.items() if p is not None}
    return tuple(RowTest(name=name, p=p, differs=p * len(told) < SURE) for name, p in told.items())


def _spread(sample: Sample) -> Spread:
    return Spread(
        count=sample.seen,
        p50_ms=sample.quantile(0.5),
        p90_ms=sample.quantile(0.9),
        p99_ms=sample.quantile(0.99),
    )


SURE = 0.01
"""A difference is called one below this p: of a hundred pairs of logs of the same traffic, one."""


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
