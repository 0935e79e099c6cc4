"""The decisions around pins, taken again under the settings that would have kept the first there.

Each from its own recorded past, so what is counted is exact for each and says nothing of what the
differences would have led to: that is for ``--what-if``.
"""

from collections.abc import Sequence

import attrs

from eventlog.record import Record
from trioroute.events import Configured, Dispatched, Event, Rebound, Spilled
from trioroute.events.sections import InForce
from trioroute.policy.candidates import under
from trioroute.policy.commands import Arrive
from trioroute.policy.decide import arrive_of, decide
from trioroute.projections import State
from trioroute.replay.acting import choose_alike
from trioroute.replay.incident.changed import Change
from trioroute.replay.incident.told import Prevention, Retaken
from trioroute.replay.read import Past, Source, decision_name
from trioroute.replay.what_if import kind_of_difference

DECISIONS_MAX = 2000
"""Decisions that are taken again, from the first one that left its pin on."""

ROWS_MAX = 10_000
SETTINGS_MAX = 6


@attrs.define
class _Under:
    """What one setting makes of the decisions."""

    change: Change
    settings: InForce
    spills: int = 0
    rebinds: int = 0
    elsewhere: int = 0

    def take(self, state: State, arrive: Arrive, was: Sequence[Event]) -> None:
        now = decide(under(state, self.settings), arrive)
        self.spills += _count(now, Spilled)
        self.rebinds += _count(now, Rebound)
        self.elsewhere += kind_of_difference(list(was), now) == "replica"


def retaken(
    source: Source, past: Past, until: int, found: Sequence[Prevention]
) -> tuple[Retaken, ...]:
    """What each setting of ``found`` makes of the decisions that follow ``past``, up to row
    ``until`` of the log. Raises SettingsError and what reading raises."""
    under = _unders(found, past.state.settings)
    first, last, decisions, spills, rebinds = "", "", 0, 0, 0
    why: str | None = None
    begin = past.state.position
    for record in source.stream(past.stream, begin, begin + ROWS_MAX):
        event = source.event(record)
        why = _over(record, event, until, decisions, past.state.settings)
        if why is not None:
            break
        if type(event) is Dispatched:
            arrive = arrive_of(event, record.at_ms, past.state)
            was = decide(past.state, arrive)
            if was and was[0] == event:
                last = decision_name(record.stream, record.version)
                first = first or last
                decisions += 1
                spills += _count(was, Spilled)
                rebinds += _count(was, Rebound)
                for one in under:
                    one.take(past.state, arrive, was)
        past.fold(record, event)
        if type(event) is Configured:
            for one in under:
                one.settings = one.change.of(event.settings)
    if why is None and past.state.position - begin >= ROWS_MAX:
        why = f"{ROWS_MAX} rows are read at most"
    return tuple(
        Retaken(
            setting=one.change.key,
            instead=one.change.instead,
            first=first,
            last=last,
            ended=why or "",
            decisions=decisions,
            spills=spills,
            spills_then=one.spills,
            rebinds=rebinds,
            rebinds_then=one.rebinds,
            elsewhere=one.elsewhere,
        )
        for one in under
    )


def _unders(found: Sequence[Prevention], in_force: InForce) -> list[_Under]:
    """One that was found under other settings than are in force there is left out: what is proposed
    for a limit of 1 says nothing of a stretch without one."""
    changes = {
        one.setting: Change(one.setting, one.now or "", one.instead or "")
        for one in found
        if one.setting is not None
    }
    meant = [one for one in changes.values() if one.fits(in_force)]
    return [_Under(one, one.of(in_force)) for one in meant[:SETTINGS_MAX]]


def _over(
    record: Record, event: Event | None, until: int, decisions: int, in_force: InForce
) -> str | None:
    """Why no more are taken again, empty: the span is over. None: they are."""
    if record.seq > until:
        return ""
    if decisions >= DECISIONS_MAX:
        return f"{DECISIONS_MAX} are taken again at most"
    if type(event) is Configured and not choose_alike(event.settings, in_force):
        return f"other settings came into force at {decision_name(record.stream, record.version)}"
    return None


def _count(events: Sequence[Event], kind: type[Event]) -> int:
    return sum(type(event) is kind for event in events)
