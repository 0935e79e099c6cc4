"""What if other settings had been in force? Every recorded decision taken again under them.

Each decision is judged from its own recorded past, so a difference never rests on another one:
that part is exact. What the differences would have led to can only be simulated: see ``rest``.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import attrs

from eventlog.record import Record
from trioroute.events import Configured, Dispatched, Event, InForce, Refused
from trioroute.policy.candidates import under
from trioroute.policy.commands import Arrive
from trioroute.policy.decide import arrive_of, decide
from trioroute.policy.explain import Step, explain
from trioroute.policy.policies import chooser_in_force
from trioroute.policy.select import Choice
from trioroute.projections import State
from trioroute.replay.clock import local_iso
from trioroute.replay.explain import pin_seen, pool_seen, work_seen
from trioroute.replay.followed import as_fields
from trioroute.replay.read import Past, Source, decision_name
from trioroute.replay.told import PinSeen, ReplicaSeen, WorkSeen
from trioroute.replay.why_other import cause_of
from trioroute.replay.within import ALL, Within
from trioroute.settings import with_changes

Kind = Literal["replica", "reason", "pins", "weight"]
KINDS: tuple[Kind, ...] = ("replica", "reason", "pins", "weight")
"""How a decision differs: another replica (or none), the same for another reason, the same choice
with other pin events, or nothing but the weight."""

SETTINGS_MAX = 100
"""Changes of settings in a span that are told."""

WARM_ROWS = 10_000
"""So many rows before those that are asked about are shown to the onlooker: requests that warm a
simulation up."""

Progress = Callable[[int, int], None]
"""Told the rows done and the rows in all."""


@attrs.frozen(kw_only=True)
class Side:
    """One of the two decisions, explained. ``events`` are the decision and its pin events;
    ``replica`` is None where the request would not have been dispatched."""

    policy: str
    replica: str | None
    reason: str | None
    because: str
    min_running_m: int
    replicas: tuple[ReplicaSeen, ...]
    work: tuple[WorkSeen, ...]
    steps: tuple[Step, ...]
    pin: PinSeen | None
    events: tuple[dict[str, object], ...]


@attrs.frozen(kw_only=True)
class FirstDifference:
    """The first decision that would have been another one, both ways."""

    decision: str
    at_ms: int
    at: str
    kind: Kind
    cause: str
    request_id: str
    recorded: Side
    changed: Side


@attrs.define(kw_only=True)
class Cause:
    """How many decisions differ alike; ``first`` is the first of them."""

    cause: str
    kind: Kind
    first: str
    count: int = 0


@attrs.define
class Exact:
    """What was counted. ``unproved`` decisions come out otherwise today without any change, so
    nothing can be said of them; ``kinds`` counts the others that differ, ``refusals`` the requests
    that were refused, by code: they are no decisions. ``settings_seen`` met requests, in order;
    ``settings`` are the last that were in force; ``begin_ms`` and ``end_ms`` are the
    times of the first and the last row."""

    begin_ms: int = 0
    end_ms: int = 0
    events: int = 0
    decisions: int = 0
    unproved: int = 0
    kinds: dict[Kind, int] = attrs.field(factory=lambda: dict.fromkeys(KINDS, 0))
    causes: dict[str, Cause] = attrs.field(factory=dict)
    first: FirstDifference | None = None
    refusals: dict[str, int] = attrs.field(factory=dict)
    settings_seen: list[InForce] = attrs.field(factory=list)
    policies: dict[str, None] = attrs.field(factory=dict)
    settings: InForce = attrs.field(factory=InForce)

    def saw(self, settings: InForce) -> None:
        """Settings that a request met, the first ones; the same object means the same."""
        seen = self.settings_seen
        if (not seen or seen[-1] is not settings) and len(seen) < SETTINGS_MAX:
            seen.append(settings)

    @property
    def differ(self) -> int:
        """Decisions that differ in more than their weight."""
        return sum(self.kinds.values()) - self.kinds["weight"]


class Onlooker:
    """Told of every row with the state before it; what goes on from there is ``rest``'s."""

    def row(self, record: Record, event: Event, state: State) -> None:
        """A row is about to be folded."""

    def first_difference(self, record: Record, event: Dispatched, state: State) -> None:
        """The decision of ``record`` is the first that differs; ``row`` is told of it after."""


@attrs.define
class _Again:
    """The decisions of one router."""

    changes: Mapping[str, object]
    past: Past
    found: Exact
    onlooker: Onlooker
    changed: InForce = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.changed = with_changes(self.past.state.settings, self.changes)

    def take(self, record: Record, event: Event | None) -> None:
        """Judge a row."""
        self.past.expect(record)
        found = self.found
        found.begin_ms, found.end_ms = found.begin_ms or record.at_ms, record.at_ms
        found.events += 1
        if type(event) is Dispatched:
            self._decision(record, event)
            found.saw(self.past.state.settings)
        elif type(event) is Refused:
            found.refusals[event.code] = found.refusals.get(event.code, 0) + 1
            found.saw(self.past.state.settings)
        self.show(record, event)
        found.settings = self.past.state.settings

    def show(self, record: Record, event: Event | None) -> None:
        """A row that is not judged, but seen."""
        self.past.expect(record)
        if event is not None:
            self.onlooker.row(record, event, self.past.state)
        self.pass_by(record, event)

    def pass_by(self, record: Record, event: Event | None) -> None:
        """A row that is only folded."""
        self.past.fold(record, event)
        if type(event) is Configured:
            self.changed = with_changes(event.settings, self.changes)

    def _decision(self, record: Record, event: Dispatched) -> None:
        found, state = self.found, self.past.state
        found.decisions += 1
        found.policies[event.policy] = None
        arrive = arrive_of(event, record.at_ms, state)
        was = decide(state, arrive)
        if not was or was[0] != event:
            found.unproved += 1
            return
        other = under(state, self.changed)
        now = decide(other, arrive)
        kind = kind_of_difference(was, now)
        if kind is None:
            return
        found.kinds[kind] += 1
        before, after = _chosen(state, arrive), _chosen(other, arrive)
        said = cause_of(kind, (before, was), (after, now))
        name = decision_name(record.stream, record.version)
        cause = found.causes.setdefault(said, Cause(cause=said, kind=kind, first=name))
        cause.count += 1
        if found.first is None and kind != "weight":
            found.first = FirstDifference(
                decision=name,
                at_ms=record.at_ms,
                at=local_iso(record.at_ms),
                kind=kind,
                cause=said,
                request_id=event.request_id,
                recorded=_side(state, arrive, before, was),
                changed=_side(other, arrive, after, now),
            )
            self.onlooker.first_difference(record, event, state)


def _chosen(state: State, arrive: Arrive) -> Choice:
    return chooser_in_force(state)(state, arrive)


def kind_of_difference(was: list[Event], now: list[Event]) -> Kind | None:
    """How two decisions differ; what only tells the policy (its name, its blocks) is no choice."""
    before = was[0]
    assert isinstance(before, Dispatched)
    after = now[0] if now else None
    if not isinstance(after, Dispatched) or after.replica != before.replica:
        return "replica"
    if after.reason != before.reason:
        return "reason"
    if was[1:] != now[1:] and after.policy == before.policy:
        return "pins"  # of another policy it goes without saying: least-work has none
    return None if after.weight_m == before.weight_m else "weight"


def _side(state: State, arrive: Arrive, choice: Choice, events: list[Event]) -> Side:
    words = explain(choice, arrive, state.settings)
    return Side(
        policy=state.settings.policy.name,
        replica=choice.replica,
        reason=choice.reason,
        because=words.because,
        min_running_m=choice.min_running_m,
        replicas=tuple(pool_seen(state, one, arrive.at_ms) for one in choice.pool),
        work=tuple(work_seen(one) for one in choice.weighed),
        steps=words.steps,
        pin=pin_seen(choice, words),
        events=tuple(as_fields(event) for event in events),
    )


def take_again(
    source: Source,
    changes: Mapping[str, object],
    onlooker: Onlooker,
    progress: Progress | None = None,
    within: Within = ALL,
) -> Exact:
    """Take every decision of a span again under ``changes``. Memory is that of one state.

    What was before the span is folded from the nearest snapshot. Covers what the log held when it
    was called. Raises NotFound where no row is of the span, SettingsError, CannotRead and what the
    reader raises.
    """
    found = Exact()
    after, until = within.rows(source)
    seen_after = max(0, after - WARM_ROWS) if within.since_ms else after
    fold = source.fold_before(seen_after + 1)
    begin = fold.head.seq
    routers = {
        stream: _Again(changes, Past(stream, state), found, onlooker)
        for stream, state in fold.states.items()
    }
    for record in source.records(begin, until):
        again = routers.get(record.stream)
        if again is None:
            again = routers[record.stream] = _Again(changes, _past(source, record), found, onlooker)
        if record.seq > after:
            again.take(record, source.event(record))
        elif record.seq > seen_after:
            again.show(record, source.event(record))
        else:
            again.pass_by(record, source.event(record))
        if progress is not None and (record.seq % 1000 == 0 or record.seq == until):
            progress(record.seq - begin, until - begin)
    return found


def _past(source: Source, record: Record) -> Past:
    """Of the first row that is kept: what a snapshot tells where older ones were retired."""
    return Past(record.stream) if record.version == 1 else source.past_before(record)
