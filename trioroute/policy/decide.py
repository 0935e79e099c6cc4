"""``decide(state, command) -> events``: pure, and the only place where events come from."""

from collections.abc import Callable
from typing import Any

from trioroute.events import (
    Checked,
    Dispatched,
    Event,
    Failed,
    Gap,
    Orphaned,
    Refused,
    Released,
    Started,
    StoodStill,
    Stopped,
)
from trioroute.events.words import RefusalCode
from trioroute.policy import commands as c
from trioroute.policy.least_work import uncached_at
from trioroute.policy.membership import (
    configure,
    drain,
    eject_by_hand,
    join,
    leave,
    leavers,
    reconfigure,
)
from trioroute.policy.pinning import expired_pins, pin_events
from trioroute.policy.policies import Chooser, asks_for_blocks, chooser_in_force
from trioroute.policy.recovery import busy_ms, judge_ending, observe, observe_failure, progress
from trioroute.policy.select import Choice
from trioroute.policy.weigh import weight_m
from trioroute.projections import State
from trioroute.projections.digest import digest
from trioroute.projections.freeze import freeze

CHECK_EVERY_EVENTS = 10_000
CHECK_EVERY_MS = 60_000


def decide(state: State, command: c.Command, chooser: Chooser | None = None) -> list[Event]:
    """What happens because of ``command``. Reads the state, changes nothing, never raises.

    ``chooser`` stands in for the policy in force: for baselines in simulations only.

    An ``Arrive`` gives ``Dispatched`` and its pin events, or ``Refused``, or nothing: then only
    full replicas were found (the request may wait), or a retry has no replica left.
    """
    if isinstance(command, c.Arrive):
        return _arrive(state, command, (chooser or chooser_in_force(state))(state, command))
    return _RULES[type(command)](state, command)


def _arrive(state: State, command: c.Arrive, choice: Choice) -> list[Event]:
    if choice.verdict == "chosen":
        if asks_for_blocks(state.settings):  # it makes no pins (RULES 9.6)
            base, blocks = state.prompts.split(command.blocks)
            left = uncached_at(state, command, choice)
            return [_dispatched(state, command, choice, base, blocks, left)]
        dispatched = _dispatched(state, command, choice)
        return [dispatched, *pin_events(state, command, choice, state.position + 1)]
    if choice.verdict == "unhealthy":
        return [_refused(command, "no_healthy_instances")]
    if choice.verdict == "unknown_model":
        return [_refused(command, "model_not_found")]
    return []


def _dispatched(
    state: State,
    command: c.Arrive,
    choice: Choice,
    base: int = 0,
    blocks: tuple[int, ...] = (),
    uncached: int = 0,
) -> Dispatched:
    """``base``, ``blocks`` and ``uncached`` are of ``least-work`` only (RULES 9)."""
    assert choice.replica is not None
    assert choice.reason is not None
    return Dispatched(
        request_id=command.request_id,
        model=command.model,
        attempt=command.attempt,
        replica=choice.replica,
        reason=choice.reason,
        weight_m=weight_m(state, command.model, command.prompt_bytes),
        session=command.session,
        prefix=command.prefix,
        home=choice.pin.replica if choice.pin is not None else None,
        draw=command.draw,
        policy=state.settings.policy.name,
        prompt_bytes=command.prompt_bytes,
        response=command.response,
        tried=command.tried,
        earlier=command.earlier,
        base=base,
        blocks=blocks,
        uncached=uncached,
        key=command.key,
        waited_ms=command.waited_ms,
    )


def _refused(command: c.Arrive | c.Refuse, code: RefusalCode) -> Refused:
    return Refused(
        request_id=command.request_id,
        code=code,
        model=command.model,
        key=command.key,
        waited_ms=command.waited_ms,
    )


def arrive_of(event: Dispatched, at_ms: int, state: State) -> c.Arrive:
    """The command behind a recorded decision, so that it can be taken again from ``state``.

    The state must be the one just before it: it holds the prompt's blocks that were known.
    """
    return c.Arrive(  # by place: by name it takes twice the time, and verify makes very many
        at_ms,
        event.request_id,
        event.model,
        event.prompt_bytes,
        event.session,
        event.prefix,
        event.response,
        event.draw,
        event.attempt,
        event.tried,
        event.earlier,
        state.prompts.joined(event.base, event.blocks),
        event.key,
        event.waited_ms,
    )


def _fail(state: State, command: c.Fail) -> list[Event]:
    flight = state.load.flights.get(command.dispatch)
    if flight is None:
        return []
    failed = Failed(
        dispatch=command.dispatch,
        cause=command.cause,
        blame=command.blame,
        status=command.status,
        retry_after_ms=busy_ms(state, command),
    )
    return [failed, *judge_ending(state, flight, command, before_first_byte=True)]


def _finish(state: State, command: c.Finish) -> list[Event]:
    flight = state.load.flights.get(command.dispatch)
    if flight is None:
        return []
    released = Released(
        dispatch=command.dispatch,
        outcome=command.outcome,
        cause=command.cause,
        blame=command.blame,
        status=command.status,
        ttfb_ms=command.ttfb_ms,
        duration_ms=command.duration_ms,
        bytes=command.bytes,
        prompt_tokens=command.prompt_tokens,
        completion_tokens=command.completion_tokens,
        response=command.response,
        retry_after_ms=busy_ms(state, command),
    )
    early = command.ttfb_ms is None
    return [released, *judge_ending(state, flight, command, before_first_byte=early)]


def _refuse(state: State, command: c.Refuse) -> list[Event]:
    return [_refused(command, command.code)]


def _start(state: State, command: c.Start) -> list[Event]:
    events: list[Event] = [
        Started(
            router=command.router,
            release=command.release,
            rules=command.rules,
            behind_ms=max(0, state.at_ms - command.at_ms),
        )
    ]
    if state.load.flights:
        flights = tuple(state.load.flights)
        events.append(Orphaned(dispatches=flights, ends_lost=command.ends_lost))
    return events


def _stop(state: State, command: c.Stop) -> list[Event]:
    return [Stopped(cause=command.cause, head=command.head)]


def _stand_still(state: State, command: c.StandStill) -> list[Event]:
    return [StoodStill(for_ms=command.for_ms)]


def _restate(state: State, command: c.Restate) -> list[Event]:
    return [
        Gap(
            lost=command.lost,
            from_ms=command.from_ms,
            to_ms=command.to_ms,
            unlogged=command.unlogged,
            state=freeze(state) if command.lost else None,
        )
    ]


def _tick(state: State, command: c.Tick) -> list[Event]:
    """A due check comes alone: its digest is of the state just before it."""
    at_ms = command.at_ms
    behind = state.position - state.checked_at
    if behind >= CHECK_EVERY_EVENTS or (behind and at_ms - state.checked_ms >= CHECK_EVERY_MS):
        checked = Checked(
            digest=digest(state),
            in_flight=len(state.load.flights),
            session_pins=len(state.pins.session),
            prefix_pins=len(state.pins.prefix),
        )
        return [checked]
    events = [*leavers(state), *expired_pins(state, at_ms)]
    for name, health in state.health.items():
        events += progress(state, name, health, at_ms, health.good_scrapes)
    return events


_RULES: dict[type, Callable[[State, Any], list[Event]]] = {
    c.Fail: _fail,
    c.Finish: _finish,
    c.Refuse: _refuse,
    c.Observe: observe,
    c.ObserveFailure: observe_failure,
    c.Join: join,
    c.Leave: leave,
    c.Drain: drain,
    c.Eject: eject_by_hand,
    c.Start: _start,
    c.Configure: configure,
    c.Reconfigure: reconfigure,
    c.Stop: _stop,
    c.StandStill: _stand_still,
    c.Restate: _restate,
    c.Tick: _tick,
}
