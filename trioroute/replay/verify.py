"""Every decision taken again from its own past: the proof, or the first difference."""

from collections.abc import Callable

from eventlog.errors import LogDamaged
from eventlog.snapshots import BadSnapshot
from trioroute.replay.beginning import beginning_of, refuse_unproved
from trioroute.replay.check import Different
from trioroute.replay.joined import judge_ahead
from trioroute.replay.judge import Judge
from trioroute.replay.processes import free_cores
from trioroute.replay.proof import Difference as Difference
from trioroute.replay.proof import Verified as Verified
from trioroute.replay.read import Source
from trioroute.replay.stretches import FalseSnapshot, judge_to, new_result

_NO_END = 1 << 62

WORTH_ROWS = 60_000
"""Fewer rows are judged here: starting the processes takes as long as they would spare."""

Progress = Callable[[int, int], None]
"""Told the rows done and the rows in all."""


def verify(
    source: Source,
    progress: Progress | None = None,
    *,
    rules_of_today: bool = False,
    processes: int | None = None,
) -> Verified:
    """Check the chain, the versions, every decision, every digest and every ending.

    ``rules_of_today``: decisions that this release takes otherwise are counted in ``today``, and
    the rest is checked all the same. ``processes``: how many judge, 0 for this one alone, None for
    as many as there are cores to use, where there are rows enough; what is found is the same.

    Covers what the log held when it was called: a running router may write on. Raises CannotRead
    for a log that this release cannot judge, and LogError where the store cannot be read.
    """
    result = new_result(rules_of_today=rules_of_today)
    try:
        _judge(source, result, progress, processes)
    except Different as found:
        result.difference = found.difference
    except LogDamaged as error:
        result.difference = _damage(error)
    except (FalseSnapshot, BadSnapshot):  # one was replaced or removed just now
        source.skipped.clear()
        return verify(source, progress, rules_of_today=rules_of_today, processes=0)
    return result


def _judge(
    source: Source, result: Verified, progress: Progress | None, processes: int | None
) -> None:
    damage: LogDamaged | None = None
    try:
        until = source.reader.head().seq
    except LogDamaged as error:
        until, damage = _NO_END, error  # told once the good rows before it were judged

    def told(seq: int) -> None:
        if progress is not None:
            progress(seq, until if damage is None else seq)

    beginning = beginning_of(source)
    judge = Judge(source, result, beginning)
    judge.begin()
    if processes is None:
        processes = free_cores(source) if until - result.head.seq >= WORTH_ROWS else 0
    if processes and not beginning.blind:
        judge = judge_ahead(judge, until, processes, told)
    if damage is None:
        judge_to(judge, until, told)
    else:
        while judge.page(until):
            told(result.head.seq)
        raise damage
    for check in judge.checks.values():
        check.finish()
    refuse_unproved(beginning, result.begins_at, until)


def _damage(error: LogDamaged) -> Difference:
    if not error.seq:
        text = f"{error.where} cannot be read ({error.reason})"
        return Difference(what="damaged", place=error.where, seq=0, text=text)
    text = f"the row of seq {error.seq} is not what was written ({error.reason})"
    return Difference(what="damaged", place=f"seq {error.seq}", seq=error.seq, text=text)
