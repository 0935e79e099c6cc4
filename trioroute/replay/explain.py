"""One decision, explained from its own past: fold up to it, decide once, look on."""

from collections.abc import Collection
from typing import Any

import attrs

from eventlog.record import Record
from eventlog.snapshots import Snapshots
from eventlog.store import LogReader
from trioroute.events import Dispatched, Event
from trioroute.policy.candidates import Candidate
from trioroute.policy.decide import arrive_of
from trioroute.policy.explain import Explanation, explain
from trioroute.policy.policies import chooser_in_force
from trioroute.policy.select import Choice, Weighed
from trioroute.projections import State
from trioroute.replay.check import decide_again, why_different
from trioroute.replay.clock import local_iso
from trioroute.replay.find import dispatch_at
from trioroute.replay.followed import Trail, as_fields, follow
from trioroute.replay.read import (
    STREAM_PREFIX,
    Source,
    decision_name,
    router_of,
)
from trioroute.replay.stood import stood_words
from trioroute.replay.told import Attempt, PinSeen, ReplicaSeen, Request, Told, WorkSeen, as_json


def explain_decision(
    reader: LogReader, router: str, number: int, snapshots: Snapshots | None = None
) -> dict[str, Any]:
    """The explanation of decision ``router/number`` as JSON-able data.

    Blocking, as long as it takes to fold the log from the last of ``snapshots`` before it: call it
    in a worker thread. Raises NotFound (with hints), CannotRead and what the reader raises.
    """
    return as_json(tell(Source(reader, snapshots=snapshots), STREAM_PREFIX + router, number))


def tell(source: Source, stream: str, number: int) -> Told:
    """Explain one decision. Raises NotFound (with hints), CannotRead."""
    return tell_all(source, stream, [number])[0]


def tell_all(source: Source, stream: str, numbers: Collection[int]) -> list[Told]:
    """Explain several decisions of one router with a single fold. Raises NotFound, CannotRead."""
    wanted = {number: dispatch_at(source, stream, number) for number in sorted(numbers)}
    told: list[Told] = []
    first = wanted[min(wanted)]
    past = source.past_before(first)
    source.fold_before_row(past, first)
    for record in source.stream(stream, past.state.position, max(wanted)):
        event = source.event(record)
        if record.version in wanted and isinstance(event, Dispatched):
            past.expect(record)
            told.append(_tell(source, past.state, record, event))
        past.fold(record, event)
    return told


def _tell(source: Source, state: State, record: Record, event: Dispatched) -> Told:
    arrive = arrive_of(event, record.at_ms, state)
    choice = chooser_in_force(state)(state, arrive)
    words = explain(choice, arrive, state.settings)
    trail = follow(source, record, event)
    ended_ms = source.last().at_ms if trail.end is None else trail.end.at_ms
    stood = stood_words(source, record.stream, record.at_ms - event.waited_ms, ended_ms)
    recorded: list[Event] = [event, *trail.pin_events]
    recomputed = decide_again(state, event, record.at_ms)
    same = recorded == recomputed
    name = decision_name(record.stream, record.version)
    return Told(
        decision=name,
        router=router_of(record.stream),
        number=record.version,
        at_ms=record.at_ms,
        at=local_iso(record.at_ms),
        sentence=_sentence(name, event, choice, words),
        request=_request(event),
        policy=event.policy,
        load=state.settings.policy.load,
        rules=state.rules,
        replica=event.replica,
        reason=event.reason,
        because=words.because,
        min_running_m=choice.min_running_m,
        replicas=tuple(pool_seen(state, c, record.at_ms) for c in choice.pool),
        work=tuple(work_seen(one) for one in choice.weighed),
        steps=words.steps,
        pin=pin_seen(choice, words),
        earlier=_earlier(source, record.stream, event),
        followed=attrs.evolve(trail.told(record.stream), stood=stood),
        verified=same,
        difference=None if same else trail.unread or why_different(state),
        recorded=() if same else tuple(as_fields(e) for e in recorded),
        recomputed=() if same else tuple(as_fields(e) for e in recomputed),
    )


def _sentence(name: str, event: Dispatched, choice: Choice, words: Explanation) -> str:
    if choice.replica == event.replica and choice.reason == event.reason:
        return f"{name} went to {event.replica} because {words.because}."
    again = f"{choice.replica} ({choice.reason})" if choice.replica else "no replica"
    return (
        f"{name} went to {event.replica} ({event.reason}); today's code chooses {again}, because "
        f"{words.because}."
    )


def _request(event: Dispatched) -> Request:
    return Request(
        request_id=event.request_id,
        model=event.model,
        attempt=event.attempt,
        weight_m=event.weight_m,
        prompt_bytes=event.prompt_bytes,
        session=event.session,
        prefix=event.prefix,
        response=event.response,
        draw=event.draw,
        tried=event.tried,
        waited_ms=event.waited_ms,
    )


def seen_at(state: State, name: str, at_ms: int, more: tuple[str, ...] = ()) -> ReplicaSeen:
    """A replica as ``state`` shows it at ``at_ms``; ``more`` are further flags."""
    health = state.health[name]
    load = state.load.replicas.get(name)
    measured = state.measure(name, at_ms)
    read = load if load is not None and load.read_at_ms else None
    flags = {
        "stale": measured.stale,
        "queue": measured.effective_waiting_m > 0,
        "busy": health.busy_until_ms > at_ms,
        "stalled": health.stalled(at_ms, state.settings),
        "asleep": health.asleep,
    }
    return ReplicaSeen(
        name=name,
        state=state.standing(name),
        running=read.running if read is not None else None,
        waiting=read.waiting if read is not None else None,
        scrape_age_ms=at_ms - read.read_at_ms if read is not None else None,
        in_flight=load.own if load is not None else 0,
        wlc_m=load.wlc_m if load is not None else 0,
        running_m=measured.running_m,
        effective_running_m=measured.effective_running_m,
        effective_waiting_m=measured.effective_waiting_m,
        cooldown_ms=max(0, health.until_ms - at_ms),
        eject_count=health.streak(at_ms, state.settings),
        flags=tuple(flag for flag, up in flags.items() if up) + more,
    )


def pool_seen(state: State, candidate: Candidate, at_ms: int) -> ReplicaSeen:
    """A candidate of a choice as ``state`` shows it."""
    more = (("full",) if candidate.full else ()) + (("tried",) if candidate.tried else ())
    return seen_at(state, candidate.name, at_ms, more)


def work_seen(weighed: Weighed) -> WorkSeen:
    """What ``least-work`` weighed, as it is told."""
    return WorkSeen(
        name=weighed.name,
        cached=weighed.cached,
        uncached=weighed.uncached,
        damage_m=weighed.damage_m,
        promised=weighed.promised,
        present=weighed.present,
        batch=weighed.batch,
        conversations=weighed.conversations,
        expected=weighed.expected,
        total=weighed.total,
    )


def pin_seen(choice: Choice, words: Explanation) -> PinSeen | None:
    """The pin that step 4 looked at, as it is told."""
    pin = choice.pin
    if pin is None or words.pin is None:
        return None
    return PinSeen(
        kind=pin.kind,
        key=pin.key,
        replica=pin.replica,
        spills=pin.spills,
        usable=pin.usable,
        sentence=words.pin,
    )


def _earlier(source: Source, stream: str, event: Dispatched) -> tuple[Attempt, ...]:
    """The failed attempts before this one, each with its end."""
    attempts = []
    for number in event.earlier:
        record = source.at(stream, number)
        before = source.event(record) if record is not None else None
        if record is not None and isinstance(before, Dispatched):
            trail: Trail = follow(source, record, before)
            attempts.append(
                Attempt(
                    decision=decision_name(stream, number),
                    attempt=before.attempt,
                    replica=before.replica,
                    reason=before.reason,
                    end=trail.end,
                )
            )
    return tuple(attempts)
