"""Every decision taken again from its own past: the proof, or the first difference."""

from collections.abc import Callable

import attrs

from eventlog.chain import verify_chain
from eventlog.errors import LogDamaged
from eventlog.record import Head, Record
from trioroute.events import Gap
from trioroute.policy import RULES_VERSION
from trioroute.replay.beginning import Beginning, beginning_of, refuse_unproved
from trioroute.replay.check import Check, Different
from trioroute.replay.proof import Difference as Difference
from trioroute.replay.proof import OtherToday
from trioroute.replay.proof import Verified as Verified
from trioroute.replay.read import PAGE, CannotRead, Past, Source
from trioroute.replay.today import TodayCheck

_NO_END = 1 << 62

Progress = Callable[[int, int], None]
"""Told the rows done and the rows in all."""


def verify(
    source: Source, progress: Progress | None = None, *, rules_of_today: bool = False
) -> Verified:
    """Check the chain, the versions, every decision, every digest and every ending.

    ``rules_of_today``: decisions that this release takes otherwise are counted in ``today``, and
    the rest is checked all the same. Covers what the log held when it was called: a running router
    may write on. Raises CannotRead for a log that this release cannot judge, and LogError where the
    store cannot be read.
    """
    result = Verified(today=OtherToday(rules=RULES_VERSION) if rules_of_today else None)
    try:
        _judge(source, result, progress)
    except Different as found:
        result.difference = found.difference
    except LogDamaged as error:
        result.difference = _damage(error)
    return result


def _judge(source: Source, result: Verified, progress: Progress | None) -> None:
    damage: LogDamaged | None = None
    try:
        until = source.reader.head().seq
    except LogDamaged as error:
        until, damage = _NO_END, error  # told once the good rows before it were judged
    walk = _Walk(source, result, beginning_of(source))
    walk.begin()
    while result.head.seq < until and walk.page(until):
        if progress is not None:
            progress(result.head.seq, until if damage is None else result.head.seq)
    if damage is not None:
        raise damage
    if result.head.seq < until:
        raise CannotRead(
            f"the log ends at seq {result.head.seq} although it had more: was it moved?"
        )
    for check in walk.checks.values():
        check.finish()
    refuse_unproved(walk.beginning, result.begins_at, until)


@attrs.define
class _Walk:
    """The rows of a log from the first one kept on, each given to the check of its router."""

    source: Source
    result: Verified
    beginning: Beginning
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
            self._take(oldest)
            self.result.head = Head(oldest.seq, oldest.chain)
        self._take_over()

    def page(self, until: int) -> bool:
        """Check one page, False if there is none; damage is told only once the good rows before it
        were judged."""
        head, turn = self.result.head, self.beginning.fold.head.seq
        stop = turn if head.seq < turn < until else until
        page = self.source.reader.read(head.seq, min(PAGE, stop - head.seq))
        damage: LogDamaged | None = None
        try:
            head = verify_chain(page, head)
        except LogDamaged as error:
            damage = error
            page = [record for record in page if record.seq < error.seq]
        for record in page:
            self._take(record)
        if damage is not None:
            raise damage
        self.result.head = head
        self._take_over()
        return bool(page)

    def _take_over(self) -> None:
        """Where the snapshot was made, go on from it with the routers that are not judged yet."""
        fold = self.beginning.fold
        if self.result.head.seq != fold.head.seq:
            return
        for stream, state in fold.states.items():
            if stream not in self.checks:
                check = self.checks[stream] = self._check(Past(stream, state))
                check.open = dict.fromkeys(state.load.flights)

    def _check(self, past: Past) -> Check:
        return (Check if self.result.today is None else TodayCheck)(past, self.result)

    def _take(self, record: Record) -> None:
        check = self.checks.get(record.stream)
        if check is None:
            past = Past(record.stream)
            if self.beginning.blind and record.version > 1:
                if not _restates(self.source, record):
                    self.result.begins_at = record.seq + 1
                    return
                past.state.position = record.version - 1
            check = self.checks[record.stream] = self._check(past)
        check.take(record, self.source.event(record))
        self.result.events += 1


def _restates(source: Source, record: Record) -> bool:
    event = source.event(record) if record.kind == "Gap" else None
    return isinstance(event, Gap) and event.state is not None


def _damage(error: LogDamaged) -> Difference:
    if not error.seq:
        text = f"{error.where} cannot be read ({error.reason})"
        return Difference(what="damaged", place=error.where, seq=0, text=text)
    text = f"the row of seq {error.seq} is not what was written ({error.reason})"
    return Difference(what="damaged", place=f"seq {error.seq}", seq=error.seq, text=text)
