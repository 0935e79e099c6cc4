"""What a decision does to pins: bind, spill, rebind, drop (RULES 5)."""

from itertools import islice

from trioroute.events import Bound, Event, Rebound, Spilled, Unbound
from trioroute.events.words import PinKind, RebindCause, UnbindCause
from trioroute.policy.commands import Arrive
from trioroute.policy.select import Choice, PinLook, prefix_expired, session_expired
from trioroute.projections import State

EXPIRIES_PER_TICK = 256
"""Bound of the pins one tick looks at, so that a tick stays short."""

EVICTIONS_PER_BIND = 8
"""Bound of the pins that make room for one, so that a decision stays short."""


def pin_events(state: State, arrive: Arrive, choice: Choice, dispatch: int) -> list[Event]:
    """The pin events that follow a ``Dispatched`` of number ``dispatch``."""
    events: list[Event] = []
    moved = _move_own_bindings(state, arrive, choice, dispatch, events)
    look = choice.pin
    dropped = False
    if look is not None and not look.usable and look.kind not in moved:
        if look.dead is not None:
            _leave_dead_pin(look, choice, dispatch, events)
            dropped = look.kind == "prefix"
        elif choice.replica != look.replica:
            _spill(state, look, choice, dispatch, events)
    if choice.chosen_is_live:
        _bind(state, arrive, choice, dispatch, dropped, events)
    else:
        _let_expired_go(state, arrive, dispatch, events)
    return events


def _let_expired_go(state: State, arrive: Arrive, dispatch: int, events: list[Event]) -> None:
    """A request that may bind nothing must not renew a session that was over (RULES 5.3)."""
    key = arrive.session
    pin = state.pins.session.get(key) if key is not None else None
    if key is not None and pin is not None and session_expired(state, pin, arrive.at_ms):
        events.append(
            Unbound(kind="session", key=key, replica=pin.replica, cause="ttl", dispatch=dispatch)
        )


def _move_own_bindings(
    state: State, arrive: Arrive, choice: Choice, dispatch: int, events: list[Event]
) -> tuple[PinKind, ...]:
    """RULES 5.9: when a request moves on, so do the pins that it bound itself."""
    if not arrive.earlier:
        return ()
    moved: list[PinKind] = []
    kinds: tuple[tuple[PinKind, str | None], ...] = (
        ("session", arrive.session),
        ("prefix", arrive.prefix),
    )
    for kind, key in kinds:
        pin = state.pins.table(kind).get(key) if key is not None else None
        if key is None or pin is None or pin.bound_by not in arrive.earlier:
            continue
        if pin.replica == choice.replica:
            continue
        moved.append(kind)
        events.append(_away(kind, key, pin.replica, "failed", choice, dispatch))
    return tuple(moved)


def _away(
    kind: PinKind,
    key: str,
    previous: str,
    cause: RebindCause,
    choice: Choice,
    dispatch: int,
) -> Event:
    """Rebind to the chosen replica, or unbind where that one may take no pin (RULES 5.8)."""
    to = choice.replica
    if to is not None and choice.chosen_is_live:
        return Rebound(
            kind=kind, key=key, replica=to, previous=previous, cause=cause, dispatch=dispatch
        )
    gone: UnbindCause = "spills" if cause == "spills" or cause == "force" else cause
    return Unbound(kind=kind, key=key, replica=previous, cause=gone, dispatch=dispatch)


def _leave_dead_pin(look: PinLook, choice: Choice, dispatch: int, events: list[Event]) -> None:
    assert look.dead is not None
    if look.kind == "session":
        events.append(_away("session", look.key, look.replica, look.dead, choice, dispatch))
    else:
        events.append(
            Unbound(
                kind="prefix",
                key=look.key,
                replica=look.replica,
                cause=look.dead,
                dispatch=dispatch,
            )
        )


def _spill(state: State, look: PinLook, choice: Choice, dispatch: int, events: list[Event]) -> None:
    assert look.spill is not None
    assert choice.replica is not None
    rules = state.settings.pins
    count = look.spills + 1
    events.append(
        Spilled(
            kind=look.kind,
            key=look.key,
            replica=look.replica,
            cause=look.spill,
            to=choice.replica,
            count=count,
            dispatch=dispatch,
        )
    )
    if look.kind == "prefix":
        if count >= rules.prefix_spills_to_drop:  # RULES 5.7
            events.append(
                Unbound(
                    kind="prefix",
                    key=look.key,
                    replica=look.replica,
                    cause="spills",
                    dispatch=dispatch,
                )
            )
    elif choice.chosen_is_live and (look.force or count >= rules.spills_to_rebind):
        cause: RebindCause = "force" if look.force else "spills"  # RULES 5.6, 5.5
        events.append(_away("session", look.key, look.replica, cause, choice, dispatch))


def _bind(
    state: State,
    arrive: Arrive,
    choice: Choice,
    dispatch: int,
    dropped_prefix: bool,
    events: list[Event],
) -> None:
    """RULES 5.9: a request without a session pin but with a key binds what is not bound yet."""
    replica = choice.replica
    assert replica is not None
    at_ms = arrive.at_ms
    if arrive.session is not None:
        pin = state.pins.session.get(arrive.session)
        if pin is not None and not session_expired(state, pin, at_ms):
            return
        _bind_key(state, "session", arrive.session, replica, dispatch, events)
    if arrive.prefix is not None:
        pin = state.pins.prefix.get(arrive.prefix)
        if pin is None or dropped_prefix or prefix_expired(state, pin, at_ms):
            _bind_key(state, "prefix", arrive.prefix, replica, dispatch, events)


def _bind_key(
    state: State, kind: PinKind, key: str, replica: str, dispatch: int, events: list[Event]
) -> None:
    table = state.pins.table(kind)
    bound = state.settings.pins.max
    old = table.get(key)
    if old is not None:
        already = any(
            isinstance(event, Unbound) and event.kind == kind and event.key == key
            for event in events
        )
        if not already:
            events.append(
                Unbound(kind=kind, key=key, replica=old.replica, cause="ttl", dispatch=dispatch)
            )
    else:  # RULES 5.10: the least recently used go; several after the bound was lowered
        surplus = min(len(table) - bound + 1, EVICTIONS_PER_BIND)
        for oldest, pin in islice(table.items(), max(0, surplus)):
            events.append(
                Unbound(
                    kind=kind,
                    key=oldest,
                    replica=pin.replica,
                    cause="evicted",
                    dispatch=dispatch,
                )
            )
    if bound > 0:
        events.append(Bound(kind=kind, key=key, replica=replica, cause="new", dispatch=dispatch))


def expired_pins(state: State, at_ms: int) -> list[Event]:
    """``Unbound`` for pins whose time is over; looks at a bounded number of the oldest."""
    events: list[Event] = []
    ttl_ms = state.settings.pins.session_ttl_ms
    for key, pin in islice(state.pins.session.items(), EXPIRIES_PER_TICK):
        if at_ms - pin.used_ms < ttl_ms:
            break
        if session_expired(state, pin, at_ms):
            events.append(_expired("session", key, pin.replica))
    for key in islice(state.pins.bound_order, EXPIRIES_PER_TICK):
        pin = state.pins.prefix[key]
        if not prefix_expired(state, pin, at_ms):
            break
        events.append(_expired("prefix", key, pin.replica))
    return events


def _expired(kind: PinKind, key: str, replica: str) -> Unbound:
    return Unbound(kind=kind, key=key, replica=replica, cause="ttl", dispatch=None)
