"""The router without I/O: state, decide, offer, apply. What serve, replay and simulate all hold.

``handle`` is a plain ``def``. Python cannot suspend inside one, so choosing a replica and adding
its weight are one step: two requests can never decide on the same load (RULES 3). An actor task
behind a channel lost: a suspension and some fifteen microseconds a decision, for nothing.

Top of the dry floors: may import events, projections, policy and ``eventlog.record``.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from eventlog.errors import JournalFull
from eventlog.record import Entry
from trioroute.events import Event, encode, kind_of
from trioroute.policy import decide
from trioroute.policy.commands import Arrive, Command, Fail, Finish, Restate, Start, Stop
from trioroute.policy.policies import Chooser, chooser_in_force
from trioroute.policy.select import Choice
from trioroute.projections import State, apply


class Log(Protocol):
    """Where events are offered: the journal live, a list in tests and simulations."""

    def offer(self, entries: Sequence[Entry], *, must_take: bool = False) -> int:
        """Take all or none; the version of the first. Raises JournalFull with nothing changed."""
        ...


@attrs.frozen(slots=True)
class Decided:
    """What one command led to; ``first`` is the version of ``events[0]``."""

    first: int
    events: tuple[Event, ...]


NOTHING = Decided(0, ())


UNLOGGED = 1 << 62
"""Versions above it are of events that no log holds: no number of a log is ever so high."""


@attrs.define(slots=True)
class Hole:
    """What the log does not tell since ``from_ms``: how many events of each of ``kinds`` were lost
    after version ``after``, and ``responses`` that went out before their decision was in it."""

    from_ms: int
    after: int
    kinds: dict[str, int] = attrs.field(factory=dict)
    responses: int = 0

    @property
    def events(self) -> int:
        """All that were lost."""
        return sum(self.kinds.values())


def _healthy() -> bool:
    return True


@attrs.define(slots=True)
class Router:
    """The only writer of live state. ``listeners`` are told after each fold, synchronously.

    ``chooser`` replaces the policy in force: for baselines in simulations only.

    With ``log.on_failure = "serve"`` a full log does not stop it: events are then folded but lost,
    with versions above ``UNLOGGED``, until ``log_healthy`` and a ``Gap`` that restates the state.
    """

    state: State
    log: Log
    listeners: list[Callable[[Decided], None]] = attrs.field(factory=list)
    chooser: Chooser | None = None
    log_healthy: Callable[[], bool] = _healthy
    hole: Hole | None = None
    unlogged: int = UNLOGGED

    def handle(self, command: Command) -> Decided:
        """Decide, offer to the log, apply: all or nothing, without a suspension point.

        Raises JournalFull (nothing changed) when the log's buffer is full; endings of requests are
        always taken, for a slot must never leak because a disk is slow.
        """
        state = self.state
        if command.at_ms < state.at_ms and type(command) is not Start:
            command = attrs.evolve(command, at_ms=state.at_ms)
        if self.hole is not None:
            self.close_hole(command.at_ms)
        events = decide(state, command, self.chooser)
        if not events:
            return NOTHING
        at_ms = command.at_ms
        entries = [to_entry(event, at_ms) for event in events]
        if state.position >= UNLOGGED:
            first = self._lose(entries)
        else:
            try:
                first = self.log.offer(entries, must_take=type(command) in _ALWAYS_TAKEN)
            except JournalFull:
                if state.settings.log.on_failure != "serve" or type(command) is Start:
                    raise
                self._begin_losing(at_ms)
                return self.handle(command)  # what it decided held the number it would have had
        return self._fold(first, events, at_ms)

    def _fold(self, first: int, events: Sequence[Event], at_ms: int) -> Decided:
        state = self.state
        assert first == state.position + 1, "the log and the state disagree on the next version"
        version = first
        for event in events:
            apply(state, version, at_ms, event)
            version += 1
        decided = Decided(first, tuple(events))
        for listener in self.listeners:
            listener(decided)
        return decided

    def response_unlogged(self, at_ms: int) -> None:
        """A response goes out although its decision is not in the log yet."""
        if self.hole is None:
            self.hole = Hole(at_ms, self.state.position)
        self.hole.responses += 1

    def _begin_losing(self, at_ms: int) -> None:
        if self.hole is None:
            self.hole = Hole(at_ms, 0)
        self.hole.after = self.state.position
        self.state.position = self.unlogged

    def _lose(self, entries: Sequence[Entry]) -> int:
        assert self.hole is not None
        kinds = self.hole.kinds
        for entry in entries:
            kinds[entry.kind] = kinds.get(entry.kind, 0) + 1
        first = self.unlogged + 1
        self.unlogged += len(entries)
        return first

    def close_hole(self, at_ms: int) -> None:
        """Once the log is healthy again, say in it what it does not tell, and go on from there."""
        state, hole = self.state, self.hole
        if hole is None or not self.log_healthy():
            return
        at_ms = max(at_ms, state.at_ms)
        losing = state.position >= UNLOGGED
        if losing:
            state.position = hole.after
        restate = Restate(
            at_ms=at_ms,
            lost=hole.events,
            from_ms=hole.from_ms,
            to_ms=at_ms,
            unlogged=hole.responses,
        )
        events = decide(state, restate)
        try:
            first = self.log.offer([to_entry(event, at_ms) for event in events], must_take=True)
        except JournalFull:
            if losing:
                state.position = self.unlogged
            return
        self.hole = None
        self._fold(first, events, at_ms)

    def decision_name(self, number: int) -> str | None:
        """``r1/42`` for the decision of that number; None for one that no log holds."""
        return f"{self.state.router}/{number}" if number <= UNLOGGED else None

    def look(self, arrive: Arrive) -> Choice:
        """What ``handle`` would choose now; changes nothing."""
        if arrive.at_ms < self.state.at_ms:
            arrive = attrs.evolve(arrive, at_ms=self.state.at_ms)
        return (self.chooser or chooser_in_force(self.state))(self.state, arrive)


_ALWAYS_TAKEN: tuple[type, ...] = (Fail, Finish, Restate, Start, Stop)


def to_entry(event: Event, at_ms: int) -> Entry:
    """The log row of an event. ``seen`` is 0: one router writes this log."""
    kind = kind_of(event)
    return Entry(kind.name, kind.schema, at_ms, 0, encode(event))
