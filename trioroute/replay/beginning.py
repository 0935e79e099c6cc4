"""Where ``verify`` begins to judge a log whose first rows were retired."""

import attrs

from eventlog.record import Record
from trioroute.replay.read import CannotRead, Source
from trioroute.snapshot import LogFold


@attrs.frozen
class Beginning:
    """``oldest`` is the first row kept, ``fold`` the earliest state that a snapshot tells of.

    ``blind``: rows were kept that ``fold`` does not reach back to. A router is judged then from
    the row after ``fold``, or from the first ``Gap`` that restates its state (LOG.md).
    """

    oldest: Record | None = None
    fold: LogFold = attrs.field(factory=LogFold)
    blind: bool = False


def beginning_of(source: Source) -> Beginning:
    """Raises what the reader raises."""
    page = source.reader.read(0, 1)
    if not page or page[0].seq == 1:
        return Beginning()
    oldest = page[0]
    fold = source.fold_before(oldest.seq)
    if fold.head.seq == oldest.seq - 1:
        return Beginning(oldest, fold)
    return Beginning(oldest, _earliest(source), blind=True)


def _earliest(source: Source) -> LogFold:
    """The state of the earliest usable snapshot of the kept rows; an empty one for none."""
    made_after = source.snapshots.seqs() if source.snapshots is not None else ()
    for seq in sorted(made_after):
        fold = source.fold_before(seq + 1)
        if fold.head.seq:
            return fold
    return LogFold()


def refuse_unproved(beginning: Beginning, begins_at: int, until: int) -> None:
    """Raise CannotRead where no row could be judged."""
    if beginning.oldest is not None and begins_at > until:
        raise CannotRead(
            f"the log begins at seq {beginning.oldest.seq}: what went before it is in an earlier "
            "segment (give the log's directory, not one file, nor one made by log archive "
            "--one-file, which holds no snapshot), or was retired and no snapshot of "
            "this release tells of it, and no Gap restates the state; trioroute log verify checks "
            "the rows themselves"
        )
