"""Walking through a log row by row, forward and back, with the state after each."""

import copy
from collections.abc import Callable

import attrs

from eventlog.record import Record
from trioroute import events as e
from trioroute.replay.event_words import is_error
from trioroute.replay.read import NotFound, Past, Source

BACK_ROWS = 200
"""A step back folds at most about this many rows, once the first one has been made."""

Pasts = dict[str, Past]
Wanted = Callable[[e.Event], bool]

SOUGHT: dict[str, tuple[str, Wanted]] = {
    "e": ("eject", lambda event: isinstance(event, e.Ejected)),
    "s": ("spill", lambda event: isinstance(event, e.Spilled)),
    "r": ("rebind", lambda event: isinstance(event, e.Rebound)),
    "x": ("error", is_error),
}
"""Keys that go on to the next event of a sort."""


@attrs.define
class Stepper:
    """Stands after one row: ``record`` and ``event`` are its, ``pasts`` the routers' states."""

    source: Source
    seq: int = 0
    record: Record | None = None
    event: e.Event | None = None
    pasts: Pasts = attrs.field(factory=dict)
    anchor: tuple[int, Pasts] | None = None

    def go_to(self, seq: int) -> bool:
        """Stand after row ``seq``. False, and nothing changes, if there is no such row."""
        if seq < 1 or not self.source.reader.read(seq - 1, 1):
            return False
        if not self.seq < seq <= self.seq + BACK_ROWS:
            self._begin(seq)
        for record in self.source.records(self.seq, seq):
            self._take(record)
        return True

    def next(self, wanted: Wanted | None = None) -> bool:
        """On to the next row, or the next one that is ``wanted``; False if the log ends before."""
        seq = self.seq
        for record in self.source.records(seq):
            event = self.source.event(record)
            if wanted is None or (event is not None and wanted(event)):
                return self.go_to(record.seq)
        return False

    def back(self) -> bool:
        return self.go_to(self.seq - 1)

    def _take(self, record: Record) -> None:
        self.record, self.event, self.seq = record, self.source.event(record), record.seq
        past = self.pasts.get(record.stream)
        if past is None:
            past = self.pasts[record.stream] = Past(record.stream)
        past.fold(record, self.event)

    def _begin(self, seq: int) -> None:
        """Stand some rows before ``seq``, and remember the states there for the next steps back."""
        low = max(0, seq - BACK_ROWS)
        if self.anchor is None or not self.anchor[0] < seq <= self.anchor[0] + BACK_ROWS:
            fold = self.source.fold_before(low + 1)
            self.seq = fold.head.seq
            self.pasts = {name: Past(name, state) for name, state in fold.states.items()}
            for record in self.source.records(self.seq, low):
                self._take(record)
            self.anchor = (self.seq, copy.deepcopy(self.pasts))
            return
        self.seq, self.pasts = self.anchor[0], copy.deepcopy(self.anchor[1])


def find_seq(source: Source, stream: str, version: int) -> int:
    """The row of ``router/number``. Raises NotFound if the log does not hold it."""
    record = source.at(stream, version)
    if record is None:
        raise NotFound(f"the log holds no row {stream.partition('/')[2]}/{version}")
    return record.seq
