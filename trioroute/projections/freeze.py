"""The state as plain data and back: what a snapshot holds, and the restated state of a ``Gap``.

Objects are rows of their fields in order, so a new field of a class here goes last and has a
default: then what was frozen before is still read. Any other change of a class, and any change of
what a fold does, needs a higher ``FOLD``: snapshots of another fingerprint are not used. Order of
tables is kept, for it decides who is evicted.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from hashlib import blake2b
from operator import attrgetter
from typing import Any

import attrs

from trioroute.events import Reading
from trioroute.events.codec import plain_settings, settings_of
from trioroute.projections import conversations, fleet, health, load, pins, prompts, tally
from trioroute.projections.state import State

FOLD = 3
"""Raised whenever the same events fold into another state than before."""


class CannotThaw(ValueError):
    """This is not the frozen state of this release."""


Row = tuple[Any, ...]


def _row_of(cls: type) -> Callable[[Any], Row]:
    return attrgetter(*(field.name for field in attrs.fields(cls) if field.init))


_SHAPES: tuple[type, ...] = (
    State,
    fleet.Fleet,
    fleet.Replica,
    health.Health,
    health.Departed,
    load.Load,
    load.Flight,
    load.ReplicaLoad,
    load.Calibration,
    Reading,
    pins.Pins,
    pins.Pin,
    pins.Held,
    prompts.Prompts,
    prompts.Sent,
    prompts.Promise,
    prompts.Demand,
    conversations.Conversations,
    tally.Tally,
    tally.Histogram,
)
_replica = _row_of(fleet.Replica)
_health = _row_of(health.Health)
_departed = _row_of(health.Departed)
_load = _row_of(load.ReplicaLoad)
_flight = _row_of(load.Flight)
_calibration = _row_of(load.Calibration)
_reading = _row_of(Reading)
_pin = _row_of(pins.Pin)
_held = _row_of(pins.Held)
_sent = _row_of(prompts.Sent)
_promise = _row_of(prompts.Promise)
_demand = _row_of(prompts.Demand)
_histogram = _row_of(tally.Histogram)
_COUNTERS = (
    "requests",
    "dispatches",
    "spills",
    "rebinds",
    "ejections",
    "scrapes",
    "retries",
    "tokens",
)


_PLAIN = tuple(field.name for field in attrs.fields(State) if field.type in (int, str))


def fingerprint() -> str:
    """What a snapshot must agree with to be used: the classes of the state and ``FOLD``."""
    told = [str(FOLD)]
    for cls in _SHAPES:
        fields = [field for field in attrs.fields(cls) if field.init]
        told += [f"{cls.__name__}.{field.name}: {field.type}" for field in fields]
    return blake2b("\n".join(told).encode(), digest_size=8).hexdigest()


def freeze(state: State) -> dict[str, Any]:
    """Everything in ``state`` as lists, tables with text keys, texts and integers.

    Its cost is that of the pin tables: call it away from the traffic.
    """
    return {
        **{name: getattr(state, name) for name in _PLAIN},
        "settings": plain_settings(state.settings),
        "fleet": [
            [_replica(replica) for replica in state.fleet.replicas.values()],
            state.fleet.joins,
            list(state.fleet.seen_models),
        ],
        "health": {name: _health(one) for name, one in state.health.items()},
        "departed": {name: _departed(one) for name, one in state.departed.items()},
        "load": _frozen_load(state.load),
        "pins": _frozen_pins(state.pins),
        "prompts": _frozen_prompts(state.prompts),
        "tally": _frozen_tally(state.tally),
    }


def _frozen_load(table: load.Load) -> list[Any]:
    replicas = {}
    for name, own in table.replicas.items():
        row = list(_load(own))
        row[_LAST] = None if own.last is None else _reading(own.last)
        replicas[name] = row
    return [
        replicas,
        [(number, *_flight(flight)) for number, flight in table.flights.items()],
        dict(table.cursor),
        {model: _calibration(one) for model, one in table.calibration.items()},
    ]


_LAST = [field.name for field in attrs.fields(load.ReplicaLoad)].index("last")


def _frozen_pins(table: pins.Pins) -> list[Any]:
    return [
        {key: _pin(pin) for key, pin in table.session.items()},
        {key: _pin(pin) for key, pin in table.prefix.items()},
        list(table.bound_order),
        {key: _held(held) for key, held in table.response.items()},
        dict(table.running),
        table.digest,
    ]


def _frozen_prompts(table: prompts.Prompts) -> list[Any]:
    sent = {}
    for name, one in table.sent.items():
        row = list(_sent(one))
        row[_HELD] = list(one.held)
        sent[name] = row
    return [
        sent,
        [(block, parent, table.holders[block]) for block, parent in table.parent.items()],
        [(number, *_promise(promise)) for number, promise in table.promises.items()],
        _demand(table.demand),
        [(block, *last) for block, last in table.conversations.last.items()],
    ]


_HELD = [field.name for field in attrs.fields(prompts.Sent)].index("held")


def _frozen_tally(table: tally.Tally) -> list[Any]:
    return [
        [[(labels, count) for labels, count in getattr(table, name).items()] for name in _COUNTERS],
        {model: _histogram(one) for model, one in table.ttfb.items()},
        {model: _histogram(one) for model, one in table.duration.items()},
        [(slot, dict(counts)) for slot, counts in table.share.items()],
        list(table.imbalance),
    ]


def thaw(frozen: dict[str, Any]) -> State:
    """The state that was frozen. Raises CannotThaw."""
    try:
        return State(
            **{name: frozen[name] for name in _PLAIN},
            settings=settings_of(frozen["settings"]),
            fleet=_thawed_fleet(*frozen["fleet"]),
            health={name: health.Health(*row) for name, row in frozen["health"].items()},
            departed={name: health.Departed(*row) for name, row in frozen["departed"].items()},
            load=_thawed_load(*frozen["load"]),
            pins=_thawed_pins(*frozen["pins"]),
            prompts=_thawed_prompts(*frozen["prompts"]),
            tally=_thawed_tally(*frozen["tally"]),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CannotThaw(f"not a frozen state of this release: {error!r}") from error


def _thawed_fleet(replicas: list[Any], joins: int, seen_models: list[str]) -> fleet.Fleet:
    made = fleet.Fleet(joins=joins, seen_models=dict.fromkeys(seen_models))
    for row in replicas:
        replica = fleet.Replica(*row)
        replica.models, replica.told_models = tuple(replica.models), tuple(replica.told_models)
        made.replicas[replica.name] = replica
    fleet.regroup(made)
    return made


def _with(row: list[Any], at: int, value: object) -> list[Any]:
    changed = list(row)
    changed[at] = value
    return changed


def _thawed_load(
    replicas: dict[str, Any],
    flights: list[Any],
    cursor: dict[str, int],
    calibration: dict[str, Any],
) -> load.Load:
    made = load.Load(cursor=dict(cursor))
    for name, row in replicas.items():
        last = None if row[_LAST] is None else _thawed_reading(row[_LAST])
        made.replicas[name] = load.ReplicaLoad(*_with(row, _LAST, last))
    for number, *row in flights:
        made.flights[number] = load.Flight(*row)
    for model, row in calibration.items():
        made.calibration[model] = load.Calibration(*row)
    return made


_READING = [field.name for field in attrs.fields(Reading)]


def _thawed_reading(row: list[Any]) -> Reading:
    fields = dict(zip(_READING, row, strict=False))
    if fields["models"] is not None:
        fields["models"] = tuple(fields["models"])
    return Reading(**fields)


def _thawed_pins(
    session: dict[str, Any],
    prefix: dict[str, Any],
    bound_order: list[str],
    response: dict[str, Any],
    running: dict[str, int],
    digest: int,
) -> pins.Pins:
    return pins.Pins(
        session={key: pins.Pin(*row) for key, row in session.items()},
        prefix={key: pins.Pin(*row) for key, row in prefix.items()},
        bound_order=dict.fromkeys(bound_order),
        response={key: pins.Held(*row) for key, row in response.items()},
        running=dict(running),
        digest=digest,
    )


def _thawed_prompts(
    sent: dict[str, Any],
    blocks: list[Any],
    promises: list[Any],
    demand: Row = (),
    known: Iterable[Row] = (),
) -> prompts.Prompts:
    made = prompts.Prompts()
    for name, row in sent.items():
        held = OrderedDict.fromkeys(row[_HELD])
        made.sent[name] = prompts.Sent(*_with(row, _HELD, held))
    for block, parent, holders in blocks:
        made.parent[block] = parent
        made.holders[block] = holders
    for number, *row in promises:
        made.promises[number] = prompts.Promise(*row)
    made.demand = prompts.Demand(*demand)
    for block, replica, slot in known:
        made.conversations.put(block, replica, slot)
    return made


def _thawed_tally(
    counters: list[Any],
    ttfb: dict[str, Any],
    duration: dict[str, Any],
    share: list[Any],
    imbalance: list[Any],
) -> tally.Tally:
    made = tally.Tally(
        ttfb={model: tally.Histogram(*row) for model, row in ttfb.items()},
        duration={model: tally.Histogram(*row) for model, row in duration.items()},
        share={slot: dict(counts) for slot, counts in share},
        imbalance=deque((when, value) for when, value in imbalance),
    )
    for name, rows in zip(_COUNTERS, counters, strict=True):
        setattr(made, name, {tuple(labels): count for labels, count in rows})
    return made
