"""The rows of a log, each judged from the past of its router."""

import attrs

from eventlog.chain import verify_chain
from eventlog.errors import LogDamaged
from eventlog.record import Head, Record
from trioroute.events import Event, Gap, UnreadableEvent, decode
from trioroute.projections import State
from trioroute.replay.beginning import Beginning
from trioroute.replay.check import Check
from trioroute.replay.proof import Verified
from trioroute.replay.read import PAGE, Past, Source
from trioroute.replay.today import TodayCheck


@attrs.define
class Judge:
    """The rows of a log from the first one kept on, each given to the check of its router."""

    source: Source
    result: Verified
    beginning: Beginning = attrs.field(factory=Beginning)
    checks: dict[str, Check] = attrs.field(factory=dict)

    def begin(self) -> None:
        """A log whose beginning was retired is judged from the snapshot at its first row on, else
        from where a later one or a Gap tells the state; its first chain is then taken on trust."""
        oldest = self.beginning.oldest
        if oldest is None:
            return
        self.result.begins_at = oldest.seq
        self.result.head = self.beginning.fold.head
        if self.beginning.blind:
            self._judge([oldest])
        self._take_over()

    def page(self, until: int) -> bool:
        """Check one page, False if there is none; damage is told only once the good rows before it
        were judged. Whatever is found, ``result.head`` is the last row that is good."""
        head, turn = self.result.head, self.beginning.fold.head.seq
        stop = turn if head.seq < turn < until else until
        page = self.source.reader.read(head.seq, min(PAGE, stop - head.seq))
        damage: LogDamaged | None = None
        try:
            verify_chain(page, head)
        except LogDamaged as error:
            damage = error
            page = [record for record in page if record.seq < error.seq]
        self._judge(page)
        if damage is not None:
            raise damage
        self._take_over()
        return bool(page)

    def _judge(self, rows: list[Record]) -> None:
        good, judged = None, 0
        checks, event_of = self.checks, self.source.event
        event: Event | None
        try:
            for record in rows:
                check = checks.get(record.stream) or self._first_of(record)
                if check is not None:
                    try:
                        event = decode(record.kind, record.schema, record.body)
                    except UnreadableEvent:  # said properly, or passed over
                        event = event_of(record)
                    check.take(record, event)
                    judged += 1
                good = record
        finally:
            self.result.events += judged
            if good is not None:
                self.result.head = Head(good.seq, good.chain)

    def _take_over(self) -> None:
        """Where the snapshot was made, go on from it with the routers that are not judged yet."""
        fold = self.beginning.fold
        if self.result.head.seq != fold.head.seq:
            return
        for stream, state in fold.states.items():
            if stream not in self.checks:
                self.begin_router(stream, state)

    def begin_router(self, stream: str, state: State) -> Check:
        """Judge a router from a state on that is known."""
        check = self.checks[stream] = self._check(Past(stream, state))
        check.open = dict.fromkeys(state.load.flights)
        return check

    def _check(self, past: Past) -> Check:
        return (Check if self.result.today is None else TodayCheck)(past, self.result)

    def _first_of(self, record: Record) -> Check | None:
        """The check of a router whose first row is ``record``; None while its state is unknown."""
        past = Past(record.stream)
        if self.beginning.blind and record.version > 1:
            if not _restates(self.source, record):
                self.result.begins_at = record.seq + 1
                return None
            past.state.position = record.version - 1
        self.checks[record.stream] = check = self._check(past)
        return check


def _restates(source: Source, record: Record) -> bool:
    event = source.event(record) if record.kind == "Gap" else None
    return isinstance(event, Gap) and event.state is not None
