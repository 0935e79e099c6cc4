"""What would have kept harm smaller: ejects that come sooner, proved row by row.

Under a lower limit an eject comes at an earlier row. Each request that was sent to that replica
between that row and its eject is decided again, from its own recorded past but with the replica
out. What is counted failed there, and goes to a replica that answered everybody in that time. A
limit that ejects a replica which the rows show to recover by itself is not proposed.
"""

from collections.abc import Iterator

import attrs

from trioroute.events import (
    Configured,
    Dispatched,
    Ejected,
    Event,
    Failed,
    Gap,
    Released,
    Scraped,
    ScrapeFailed,
    Started,
)
from trioroute.events.sections import InForce
from trioroute.policy.commands import Command
from trioroute.policy.decide import arrive_of, decide
from trioroute.projections import State
from trioroute.replay.clock import span
from trioroute.replay.incident.changed import Change, Proof
from trioroute.replay.incident.prove_ejects import command_of
from trioroute.replay.incident.traffic import ANSWERED
from trioroute.replay.read import Past, Source, decision_name
from trioroute.replay.words import NOT_FAILED, plural

ROWS_BEFORE = 2000
ROWS_AFTER = 6000
"""So many rows before the first eject of a kind, and after it, are looked at for what a lower limit
would have done."""

LOWER_MAX = 8
"""Lower limits that are tried."""


def lower(key: str, now: int) -> Iterator[Change]:
    """A number one by one lower, down to 1."""
    return (Change(key, str(now), str(value)) for value in range(now - 1, 0, -1)[:LOWER_MAX])


@attrs.define
class _Window:
    """A replica is out from the row ``place`` on, until the eject that the log has.

    ``moved`` are the requests sent there meanwhile that go elsewhere, with the replica that each
    goes to; ``begun`` those that others got meanwhile. ``lost`` are the ``moved`` that failed.
    """

    replica: str
    place: str
    at_ms: int
    sooner_ms: int = 0
    moved: dict[int, str] = attrs.field(factory=dict)
    begun: dict[int, str] = attrs.field(factory=dict)
    lost: list[int] = attrs.field(factory=list)
    answered: dict[str, int] = attrs.field(factory=dict)
    bad: set[str] = attrs.field(factory=set)

    def saved(self) -> dict[str, int]:
        """By replica, how many that failed would have gone there: only where it answered all that
        it got meanwhile, and got no fewer than it would have got besides."""
        moved = list(self.moved.values())
        targets = [self.moved[number] for number in self.lost]
        return {
            name: targets.count(name)
            for name in dict.fromkeys(targets)
            if name not in self.bad and self.answered.get(name, 0) >= moved.count(name)
        }


@attrs.define
class _Under:
    """What one lower limit makes of the rows. ``worse``: it ejects who recovers by itself."""

    change: Change
    settings: InForce
    out: dict[str, _Window] = attrs.field(factory=dict)
    done: list[_Window] = attrs.field(factory=list)
    worse: bool = False

    def dispatched(self, state: State, number: int, at_ms: int, event: Dispatched) -> None:
        for window in self.out.values():
            if event.replica != window.replica:
                window.begun[number] = event.replica
        here = self.out.get(event.replica)
        if here is None:
            return
        health = dict(state.health)
        for name in self.out:
            health[name] = attrs.evolve(health[name], stage="EJECTED", until_ms=2**62)
        without = attrs.evolve(state, settings=self.settings, health=health)
        now = decide(without, arrive_of(event, at_ms, without))
        sent = now[0] if now else None
        if isinstance(sent, Dispatched) and without.standing(sent.replica) == "LIVE":
            here.moved[number] = sent.replica

    def ended(self, event: Failed | Released, replica: str) -> None:
        well = isinstance(event, Released) and event.outcome in ANSWERED
        if replica in self.out and well:
            self.worse = True  # it breaks the row of failures
        for window in (*self.out.values(), *self.done):
            if event.dispatch in window.moved:
                if isinstance(event, Released) and event.outcome not in NOT_FAILED:
                    window.lost.append(event.dispatch)
            elif event.dispatch in window.begun:
                if event.blame == "replica":
                    window.bad.add(replica)
                elif well:
                    window.answered[replica] = window.answered.get(replica, 0) + 1

    def trouble(self, state: State, command: Command, name: str, place: str, at_ms: int) -> None:
        """A row that ejects nobody in the log."""
        if name in self.out or state.health[name].stage != "LIVE":
            return
        now = decide(attrs.evolve(state, settings=self.settings), command)
        if any(isinstance(one, Ejected) for one in now):
            self.out[name] = _Window(name, place, at_ms)

    def ejected(self, name: str, at_ms: int, by: str | None) -> None:
        window = self.out.pop(name, None)
        if window is not None:
            window.sooner_ms = at_ms - window.at_ms
            self.worse |= by is not None
            self.done.append(window)

    def seen_well(self, event: Scraped) -> None:
        """A good scrape breaks the row of failed ones."""
        if any(name in self.out for name in (*event.readings, *event.same)):
            self.worse = True


@attrs.define
class Sooner:
    """``scrapes``: the limit is one of scrapes, not of requests. ``failed`` counts, by replica, the
    requests that failed there."""

    unders: list[_Under]
    scrapes: bool
    failed: dict[str, int] = attrs.field(factory=dict)
    first: str = ""
    last: str = ""

    def take(self, past: Past, version: int, at_ms: int, event: Event) -> None:
        """A row, ``past`` being that before it."""
        state, place = past.state, decision_name(past.stream, version)
        self.first, self.last = self.first or place, place
        match event:
            case Dispatched():
                for one in self.unders:
                    one.dispatched(state, version, at_ms, event)
            case Ejected():
                for one in self.unders:
                    one.ejected(event.replica, at_ms, event.by)
            case Scraped() if self.scrapes:
                for one in self.unders:
                    one.seen_well(event)
            case Failed() | Released():
                self._ended(state, place, at_ms, event)
            case ScrapeFailed() if self.scrapes:
                self._trouble(state, event, event.replica, place, at_ms)

    def _ended(self, state: State, place: str, at_ms: int, event: Failed | Released) -> None:
        flight = state.load.flights.get(event.dispatch)
        if flight is None:
            return
        if isinstance(event, Released) and event.outcome not in NOT_FAILED:
            self.failed[flight.replica] = self.failed.get(flight.replica, 0) + 1
        for one in self.unders:
            one.ended(event, flight.replica)
        if event.blame == "replica" and not self.scrapes:
            self._trouble(state, event, flight.replica, place, at_ms)

    def _trouble(self, state: State, event: Event, name: str, place: str, at_ms: int) -> None:
        command = command_of(event, at_ms)
        if command is None or name not in state.health:
            return
        if any(isinstance(one, Ejected) for one in decide(state, command)):
            return
        for one in self.unders:
            one.trouble(state, command, name, place, at_ms)

    def proof(self) -> Proof | None:
        """The limit under which the fewest fail; of those that are as good the highest."""
        proofs = [found for one in self.unders if (found := self._proof(one)) is not None]
        return max(proofs, key=lambda found: found[0])[1] if proofs else None

    def _proof(self, one: _Under) -> tuple[int, Proof] | None:
        if one.worse or one.out or not one.done:
            return None
        saved = sum(sum(window.saved().values()) for window in one.done)
        names = list(dict.fromkeys(window.replica for window in one.done))
        total = sum(self.failed.get(name, 0) for name in names)
        if not saved:
            return None
        first = one.done[0]
        targets = dict.fromkeys(to for window in one.done for to in window.saved())
        got = sum(window.answered.get(name, 0) for window in one.done for name in window.saved())
        more = (
            f" (and {len(one.done) - 1} more ejects sooner than they were)" if one.done[1:] else ""
        )
        text = (
            f"{total - saved} instead of {plural(total, 'request')} would have failed on "
            f"{', '.join(names)} with {one.change.words}, as far as {self.first} to {self.last} "
            f"show: {first.replica} would have been ejected at {first.place}, "
            f"{span(first.sooner_ms)} sooner{more}. {plural(saved, 'request')} that failed would, "
            f"decided again without it, have gone to {' or '.join(targets)}, which answered all "
            f"{got} that they got meanwhile; no replica would have been ejected that was not"
        )
        return saved, Proof(one.change, text, lessens=True)


def sooner(source: Source, past: Past, until: int, version: int, *, scrapes: bool) -> Proof | None:
    """What a lower limit of failed scrapes, or of failed requests, would have done in the rows
    that follow ``past``, around the eject in row ``version``; ``until`` is the last row of the log
    to look at. Raises SettingsError and what reading raises."""
    found = _begun(past.state, scrapes)
    for record in source.stream(past.stream, past.state.position, version + ROWS_AFTER):
        event = source.event(record)
        anew = isinstance(event, Started | Configured | Gap)
        if record.seq > until or (anew and record.version > version):
            break
        if event is not None and not anew:
            found.take(past, record.version, record.at_ms, event)
        past.fold(record, event)
        if anew:
            found = _begun(past.state, scrapes)
    return found.proof()


def _begun(state: State, scrapes: bool) -> Sooner:
    key = "eject.scrape_failures" if scrapes else "eject.request_failures"
    rules = state.settings.eject
    now = rules.scrape_failures if scrapes else rules.request_failures
    return Sooner([_Under(one, one.of(state.settings)) for one in lower(key, now)], scrapes)
