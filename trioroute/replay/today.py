"""``--verify --rules-of-today``: what this release would have decided otherwise, after an upgrade.

Every decision is taken again from its own recorded past, so no difference rests on another one.
Rows that are damaged, or ends that are not one a dispatch, are findings as they are without it.
"""

import attrs
from msgspec.structs import replace

from eventlog.record import Record
from trioroute.events import Checked, Dispatched, Event
from trioroute.policy import RULES_VERSION
from trioroute.policy.decide import arrive_of
from trioroute.policy.policies import chooser_in_force
from trioroute.policy.select import Choice
from trioroute.projections import State
from trioroute.replay.check import Check, Different, Last, decide_again, made_by
from trioroute.replay.proof import Difference, OtherCause, OtherToday
from trioroute.replay.read import decision_name
from trioroute.replay.what_if import kind_of_difference
from trioroute.replay.why_other import cause_of


@attrs.define
class _Taken:
    """A decision as recorded, as it comes out today, and today's choice where that is another."""

    number: int
    seq: int
    rules: int
    recorded: list[Event]
    again: list[Event]
    choice: Choice | None


@attrs.define
class TodayCheck(Check):
    """As ``Check``, but decisions that differ are counted by cause instead of ending it."""

    pending: _Taken | None = None

    @property
    def found(self) -> OtherToday:
        assert self.result.today is not None
        return self.result.today

    def decision(self, record: Record, event: Dispatched) -> None:
        self.conclude()
        state = self.past.state
        self.result.decisions += 1
        self.number = record.version
        again = decide_again(state, event, record.at_ms)
        same = bool(again) and again[0] == event
        choice = None if same else _chosen(state, event, record.at_ms)
        self.pending = _Taken(record.version, record.seq, state.rules, [event], again, choice)
        self.open[record.version] = None
        taken = self.found.decisions
        taken[state.rules] = taken.get(state.rules, 0) + 1

    def _pin_event(self, record: Record, event: Event) -> None:
        if self.pending is not None and made_by(event, self.number):
            self.pending.recorded.append(event)

    def last(self) -> Last:
        return attrs.evolve(super().last(), pending=self.pending)

    def go_on(self, last: Last) -> None:
        super().go_on(last)
        self.pending = last.pending

    def finish(self) -> None:
        self.conclude()
        super().finish()

    def checked(self, record: Record, event: Checked) -> None:
        try:
            super().checked(record, event)
        except Different:
            if self.past.state.rules == RULES_VERSION:
                raise
            self.found.digests += 1  # the state of another release holds other things

    def conclude(self) -> None:
        one, self.pending = self.pending, None
        if one is None or one.recorded == one.again:
            return
        kind, said = _told(one)
        place = decision_name(self.past.stream, one.number)
        found = self.found
        cause = found.causes.setdefault(
            (one.rules, said), OtherCause(cause=said, kind=kind, rules=one.rules, first=place)
        )
        cause.count += 1
        if found.first is None:
            found.first = Difference(
                what="not deterministic" if one.rules == RULES_VERSION else "rule changed",
                place=place,
                seq=one.seq,
                text=f"{place}, taken under rules {one.rules}: {said}",
                recorded=tuple(one.recorded),
                recomputed=tuple(one.again),
            )


def _chosen(state: State, event: Dispatched, at_ms: int) -> Choice:
    return chooser_in_force(state)(state, arrive_of(event, at_ms, state))


def _told(one: _Taken) -> tuple[str, str]:
    """How it differs, and in words."""
    was, now = one.recorded[0], one.choice
    kind = kind_of_difference(one.recorded, one.again)
    if kind is None or not isinstance(was, Dispatched):
        return "fields", "the same choice, told in other fields"
    if now is None:  # the decision is the same, what became of its pins is not
        return kind, cause_of(kind, (_EMPTY, one.recorded), (_EMPTY, one.again))
    before = replace(
        now,
        verdict="chosen",
        replica=was.replica,
        reason=was.reason,
        weighed=now.weighed if was.policy == "least-work" else (),
    )
    return kind, cause_of(kind, (before, one.recorded), (now, one.again))


_EMPTY = Choice("chosen", None, None, ())
