"""A log cut at its snapshots into stretches, each of which can be judged without the others.

That a stretch is good proves only what follows from the snapshot it began with. It is as strong as
the walk from the first row where that snapshot tells of the very state which the rows before give,
and is bound to their chain: so each one is judged up to the next snapshot, and compares.
"""

from collections.abc import Callable

import attrs

from eventlog.chain import verify_chain
from eventlog.errors import LogDamaged, LogError
from eventlog.snapshots import BadSnapshot, Snapshots
from trioroute.policy import RULES_VERSION
from trioroute.replay.beginning import beginning_of
from trioroute.replay.check import NOT_KNOWN, PIN_EVENTS, Different, Last
from trioroute.replay.judge import Judge
from trioroute.replay.processes import told_to_stop
from trioroute.replay.proof import OtherToday, Verified
from trioroute.replay.read import CannotRead, Past, Source
from trioroute.snapshot import FOLD, foreign_only, parse_states, tells

STRETCH_ROWS = 15_000
"""Rows of a stretch at least: reading and comparing the snapshots at its ends is a small part."""

Progress = Callable[[int], None]
"""Told the last row judged."""

QUIET_WITHIN = 100
"""Rows after a snapshot among which one is looked for that can begin a stretch."""

_AFTER_ANOTHER = frozenset({*(one.__name__ for one in PIN_EVENTS), "Orphaned"})
"""Rows that are judged with the one before them."""


@attrs.frozen
class Stretch:
    """The rows with ``after < seq <= until``, judged from the snapshot after row ``snapshot``, a
    few rows before them; 0: from the beginning of the log. ``next`` is the snapshot that the next
    stretch begins with, 0 for the last one."""

    snapshot: int
    after: int
    next: int
    until: int


@attrs.frozen
class Judged:
    """A stretch that was found good.

    ``began`` and ``reached`` name the snapshots at its two ends (b"" for none) by what is in them.
    ``early`` and ``last`` are of each router: whose pin events came before the first decision, and
    what is left of the last one.
    """

    result: Verified
    skipped: dict[str, int]
    began: bytes
    reached: bytes
    early: dict[str, dict[int | None, None]]
    last: dict[str, Last]


class FalseSnapshot(Exception):
    """It does not tell of the state that was reached, or nobody waits for that any more."""


def stretches(source: Source, after: int, until: int) -> list[Stretch]:
    """The rows with ``after < seq <= until``, cut where usable snapshots are; the log begins behind
    ``after``. Raises StoreFailed."""
    if source.snapshots is None:
        return []
    cuts = [(0, after)]
    for seq in reversed(source.snapshots.seqs()):
        if cuts[-1][1] + STRETCH_ROWS <= seq <= until - STRETCH_ROWS:
            quiet = _quiet_after(source, seq)
            if quiet and _usable(source.snapshots, seq):
                cuts.append((seq, quiet))
    if len(cuts) == 1:
        source.tell_once(foreign_only(source.snapshots, until - after))
    ends = [*cuts[1:], (0, until)]
    return [Stretch(*begin, *end) for begin, end in zip(cuts, ends, strict=True)]


def _usable(snapshots: Snapshots, seq: int) -> bool:
    try:
        return snapshots.fold_of(seq) == FOLD and snapshots.read(seq).fold == FOLD
    except BadSnapshot:
        return False


def _quiet_after(source: Source, seq: int) -> int:
    """The first row from ``seq`` on whose next is not judged together with it; 0 for none."""
    try:
        for record in source.reader.read(seq, QUIET_WITHIN):
            if record.kind not in _AFTER_ANOTHER:
                return record.seq - 1
    except LogDamaged:
        pass  # the stretch before goes on to there
    return 0


def new_result(*, rules_of_today: bool) -> Verified:
    return Verified(today=OtherToday(rules=RULES_VERSION) if rules_of_today else None)


def judge_stretch(source: Source, stretch: Stretch, rules_of_today: bool) -> Judged | None:
    """None unless all in it is good, whatever it is that is not: whoever judges it then from the
    state that was reached finds it, and tells it as of a log that was never cut."""
    result = new_result(rules_of_today=rules_of_today)
    source.skipped.clear()
    try:
        judge, began = begin_stretch(source, stretch, result)
        for check in judge.checks.values():
            check.number = check.number or NOT_KNOWN
        reached = _finish(judge, stretch)
    except (Different, FalseSnapshot, BadSnapshot, CannotRead, LogError):
        return None
    checks = judge.checks
    if rules_of_today and len(checks) > 1:
        return None  # what is "first" follows the order in which routers' decisions interleave
    return Judged(
        result,
        dict(source.skipped),
        began,
        reached,
        {stream: check.early for stream, check in checks.items()},
        {stream: check.last() for stream, check in checks.items() if stretch.next},
    )


def begin_stretch(source: Source, stretch: Stretch, result: Verified) -> tuple[Judge, bytes]:
    """Ready to judge the first row, and the name of what it is judged from.

    Raises BadSnapshot, CannotRead, LogError.
    """
    if not stretch.snapshot:
        judge = Judge(source, result, beginning_of(source))
        judge.begin()
        return judge, b""
    assert source.snapshots is not None
    kept = source.snapshots.read(stretch.snapshot)
    pasts = {stream: Past(stream, state) for stream, state in parse_states(kept.payload).items()}
    lead = stretch.after - kept.head.seq
    rows = source.reader.read(kept.head.seq, lead) if lead else []
    aside = attrs.evolve(source, skipped={})  # the stretch before counts them
    result.head = verify_chain(rows, kept.head)
    for record in rows:
        past = pasts.get(record.stream)
        if past is None:
            past = pasts[record.stream] = Past(record.stream)
        past.fold(record, aside.event(record))
    judge = Judge(source, result)
    for stream, past in pasts.items():
        judge.begin_router(stream, past.state)
    return judge, kept.digest()


def _finish(judge: Judge, stretch: Stretch) -> bytes:
    """Judge to the end, and the name of the snapshot there, which tells of the state reached.

    Raises FalseSnapshot where it does not, or the state is not all; then all rows were judged. And
    what a page raises.
    """
    if not stretch.next:
        judge_to(judge, stretch.until, _unless_told_to_stop)
        for check in judge.checks.values():
            check.finish()
        return b""
    judge_to(judge, stretch.next, _unless_told_to_stop)
    reached = compare_with(judge, stretch.next)
    judge_to(judge, stretch.until, _unless_told_to_stop)
    if not reached or not all(check.settled for check in judge.checks.values()):
        raise FalseSnapshot(stretch.next)
    return reached


def judge_to(judge: Judge, until: int, progress: Progress) -> None:
    """Judge up to a row. Raises CannotRead where there is none, and what a page raises."""
    while judge.result.head.seq < until:
        if not judge.page(until):
            raise CannotRead(
                f"the log ends at seq {judge.result.head.seq} although it had more: was it moved?"
            )
        progress(judge.result.head.seq)


def _unless_told_to_stop(_: int) -> None:
    if told_to_stop():
        raise FalseSnapshot


def compare_with(judge: Judge, seq: int) -> bytes:
    """The name of the snapshot after the row that was judged last; b"" unless it tells of it."""
    snapshots = judge.source.snapshots
    assert snapshots is not None
    states = {stream: check.past.state for stream, check in judge.checks.items()}
    try:
        kept = snapshots.read(seq)
    except BadSnapshot:
        return b""
    return kept.digest() if tells(kept, judge.result.head, states) else b""
