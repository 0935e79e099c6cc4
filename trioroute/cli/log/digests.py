"""The digests of states that a log tells (``Checked``), compared with what its rows give."""

from collections.abc import Sequence
from pathlib import Path

import attrs

from eventlog import Head, LogDamaged, LogError, Record
from eventlog.reading import SqliteReader
from eventlog.snapshots import BadSnapshot, Snapshots
from trioroute import events as e
from trioroute.projections.digest import digest
from trioroute.snapshot import LogFold, begin_fold


@attrs.define
class Comparison:
    """``good`` digests told of the state that ``fold`` came to, those of rows ``bad`` did not."""

    fold: LogFold
    good: int = 0
    bad: list[int] = attrs.field(factory=list)

    def take(self, record: Record) -> None:
        """Compare a ``Checked`` with the state it tells of, and fold the row.

        Raises LogDamaged where versions are missing, UnreadableEvent.
        """
        fold = self.fold
        if record.kind == "Checked" and record.stream not in fold.inexact:
            state = fold.states.get(record.stream)
            event = e.decode(record.kind, record.schema, record.body)
            assert isinstance(event, e.Checked)
            if state is not None and digest(state) == event.digest:
                self.good += 1
            else:
                self.bad.append(record.seq)
        fold.take(record)


@attrs.define
class Digests:
    """The comparison of a log whose good rows are given in order, from its first one on.

    ``start`` is the head before the first row kept, None where nothing tells it.
    """

    log: Path
    start: Head | None = None
    _compared: Comparison = attrs.field(factory=lambda: Comparison(LogFold()))
    _lost: bool = False

    @property
    def good(self) -> int:
        return self._compared.good

    @property
    def bad(self) -> Sequence[int]:
        return self._compared.bad

    def __attrs_post_init__(self) -> None:
        if not self.log.is_dir():
            return
        try:
            with SqliteReader.open(self.log) as reader:
                first = reader.read(0, 1)
                if first and first[0].seq > 1:
                    before = first[0].seq - 1
                    fold = self._compared.fold = begin_fold(
                        reader, Snapshots(self.log), until=before
                    )
                    at_border = fold.head.seq == before
                    self.start = fold.head if at_border else _border_head(self.log, first[0])
        except LogError:
            return  # told by the check

    def take(self, record: Record) -> None:
        """The next row that holds. After damage there is no state to compare with."""
        if self._lost:
            return
        try:
            self._compared.take(record)
        except (LogDamaged, e.UnreadableEvent):
            self._lost = True


def _border_head(log: Path, first: Record) -> Head | None:
    """The head before the first row, from a snapshot whose fold is of another release."""
    try:
        return Snapshots(log).read(first.seq - 1).head
    except BadSnapshot:
        return None
