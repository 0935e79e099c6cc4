"""Walking through a log row by row, forward and back, with the state after each."""

import copy
from collections.abc import Callable
from typing import get_args

import attrs

from eventlog.record import Record
from trioroute import events as e
from trioroute.events.codec import KINDS
from trioroute.events.words import Outcome
from trioroute.replay.event_words import is_error
from trioroute.replay.find import no_router
from trioroute.replay.only import Only
from trioroute.replay.read import NotFound, Past, Source
from trioroute.replay.words import NOT_FAILED
from trioroute.row_index import searched

BACK_ROWS = 200
"""A step back folds at most about this many rows, once the first one has been made."""

SEARCH_ROWS = 1000
SEARCH_MOST = 50_000
"""Rows looked through at a time for what is sought: few first, for most of it is near."""

Pasts = dict[str, Past]
Wanted = Callable[[e.Event], bool]
Look = tuple[tuple[str, ...], tuple[str, ...]]
"""Kinds of rows, and texts of which a body holds one."""


@attrs.frozen
class Sought:
    """A sort of rows to go on or back to; ``looks`` find them and hardly any other."""

    name: str
    looks: tuple[Look, ...]
    wanted: Wanted


def _is(*classes: type[e.Event]) -> Wanted:
    return lambda event: isinstance(event, classes)


_ANY = ("{",)
_ENDS = ("Released", "Failed", "Orphaned")
_BAD_ENDS = tuple(f'"outcome":"{word}"' for word in get_args(Outcome) if word not in NOT_FAILED)

SOUGHT: dict[str, Sought] = {
    "e": Sought("eject", ((("Ejected",), _ANY),), _is(e.Ejected)),
    "s": Sought("spill", ((("Spilled",), _ANY),), _is(e.Spilled)),
    "r": Sought("rebind", ((("Rebound",), _ANY),), _is(e.Rebound)),
    "x": Sought(
        "error",
        ((("Failed", "Refused", "Orphaned"), _ANY), (("Released",), _BAD_ENDS)),
        is_error,
    ),
}
"""Keys that go to the next event of a sort; as capitals, to the one before."""


def anything(only: Only) -> Sought:
    """Every row that is about ``only``."""
    kinds = tuple(kind for kind in KINDS if kind not in (*_ENDS, "Scraped", "Checked"))
    return Sought("row", ((kinds, only.texts()), (_ENDS, _ANY)), lambda event: True)


@attrs.define
class Stepper:
    """Stands after one row: ``record`` and ``event`` are its, ``pasts`` the routers' states.

    With ``only``, all steps go to rows that are about it.
    """

    source: Source
    only: Only | None = None
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

    def next(self, sought: Sought | None = None) -> bool:
        """On to the next row, or the next one that is ``sought``; False if the log ends before."""
        if sought is None and self.only is None:
            return self.go_to(self.seq + 1)
        after, end, size = self.seq, self.source.reader.head().seq, SEARCH_ROWS
        while after < end:
            until = min(after + size, end)
            for record in self._found(sought, after, until):
                if self._fits(sought, record):
                    return self.go_to(record.seq)
            after, size = until, min(2 * size, SEARCH_MOST)
        return False

    def back(self, sought: Sought | None = None) -> bool:
        """As ``next``, the other way."""
        if sought is None and self.only is None:
            return self.go_to(self.seq - 1)
        until, size = self.seq - 1, SEARCH_ROWS
        while until > 0:
            after = max(0, until - size)
            for record in reversed(self._found(sought, after, until)):
                if self._fits(sought, record):
                    return self.go_to(record.seq)
            until, size = after, min(2 * size, SEARCH_MOST)
        return False

    def _found(self, sought: Sought | None, after: int, until: int) -> list[Record]:
        """Rows that may be meant, in order."""
        if sought is None:
            assert self.only is not None
            sought = anything(self.only)
        rows = [
            row
            for kinds, texts in sought.looks
            for row in searched(self.source.reader, kinds, texts, after, until)
        ]
        return sorted(rows, key=lambda row: row.seq)

    def _fits(self, sought: Sought | None, record: Record) -> bool:
        event = self.source.event(record)
        if event is None or (sought is not None and not sought.wanted(event)):
            return False
        return self.only is None or self.only.concerns(record, event)

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
        if not source.reader.stream_version(stream):
            raise no_router(source, stream)
        raise NotFound(f"the log holds no row {stream.partition('/')[2]}/{version}")
    return record.seq
