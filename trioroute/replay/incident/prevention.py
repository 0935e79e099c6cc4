"""What would have prevented the harm of a span, proved from the recorded past.

The first row of each kind of harm is decided again under another setting, from its own past. What
the log cannot prove is not said. The rows folded for it are bounded, however long the log is.
"""

from collections.abc import Iterator

import attrs

from trioroute.replay.incident.changed import Proof
from trioroute.replay.incident.harm import Harm, Kind
from trioroute.replay.incident.prover import NO_PROOF, Prover, place_of
from trioroute.replay.incident.retaken import retaken
from trioroute.replay.incident.told import FirstCause, Prevention, Retaken
from trioroute.replay.incident.traffic import Traffic
from trioroute.replay.read import Source

ROWS_MAX = 60_000
"""Rows that are folded for all proofs together; what needs more is not proved."""

PROOFS_MAX = 20
"""Kinds of harm that are looked into, the gravest first."""

_GRAVEST = ("eject", "orphaned", "end", "lost", "refused", "delayed", "retried", "pin")


_NO_SETTING = {
    "died": "no setting of the router prevents that it died",
    "down": "no setting of the router takes requests while none runs: run two behind a balancer",
    "standstill": "no setting of the router prevents that its process or machine stands still",
    "stall": "no setting of the router prevents that an engine stops generating: eject.stall_after "
    "is how soon new requests pass it over, timeouts.idle how soon its streams are given up",
    "log": "no setting of the router makes a log writable that is not",
    "overload": "no setting of the router makes room where requests wait at every LIVE replica: "
    "admission.max_in_flight lets them wait in the router instead",
    "change": "no setting of the router prevents what was done on purpose",
}
"""By the kind of a first cause that is no row of ``Harms``."""


@attrs.frozen
class Prevented:
    """``items``: the first cause's and the gravest first. ``unproved`` were left out."""

    items: tuple[Prevention, ...]
    retaken: tuple[Retaken, ...]
    unproved: int


def prevented(
    source: Source, harms: list[Harm], cause: FirstCause | None, until: int, traffic: Traffic
) -> Prevented:
    """What is proved of each kind of harm in a span that ends with row ``until``."""
    delays = {} if traffic.delays is None else traffic.delays.first
    harms = [*harms, *_besides(traffic)]
    ranked = sorted(harms, key=lambda harm: _rank(harm, cause))
    late = {part: first for part, (_, first) in delays.items()}
    prover = Prover(source, ROWS_MAX, traffic.latest_ms + 1 or None, traffic.running(), late)
    found = dict[Kind, list[Prevention]]()
    unproved = len(ranked[PROOFS_MAX:])
    for harm in sorted(ranked[:PROOFS_MAX], key=lambda one: place_of(one.place)):
        try:
            proofs = prover.prove(harm)
        except NO_PROOF:
            unproved += 1
            continue
        found[harm.kind] = [one.told(harm.kind[0], harm.place, harm.times) for one in proofs]
    for harm in _first_ejects(ranked):
        try:
            less = prover.lessen(harm, until)
        except NO_PROOF:
            continue
        if less is not None:
            found.setdefault(harm.kind, []).append(less.told("eject", harm.place, harm.times))
    items = [one for harm in ranked for one in found.get(harm.kind, ())]
    pins = [one for one in items if one.harm == "pin"]
    return Prevented(
        (*_of_cause(cause, harms), *items),
        _retaken(prover, pins, until),
        unproved,
    )


def _besides(traffic: Traffic) -> Iterator[Harm]:
    """Harm that no row tells by itself: every attempt failed, or it took too long."""
    lost = dict[Kind, Harm]()
    for one in traffic.limbo.failed.values():
        kind = ("lost", one.cause, one.blame)
        lost.setdefault(kind, Harm(kind, one.row)).times += 1
    yield from lost.values()
    if traffic.delays is not None:
        for part, (times, first) in traffic.delays.first.items():
            yield Harm(("delayed", part), first.decision, times)


def _first_ejects(harms: list[Harm]) -> list[Harm]:
    """Of LIVE replicas, the first one by requests and the first one by scrapes."""
    first: dict[str, Harm] = {}
    for harm in sorted(harms, key=lambda one: place_of(one.place)):
        if harm.kind[:2] == ("eject", "LIVE"):
            first.setdefault(harm.kind[2], harm)
    return list(first.values())


def _of_cause(cause: FirstCause | None, harms: list[Harm]) -> tuple[Prevention, ...]:
    """What is said of a first cause that is not among ``harms``."""
    text = None if cause is None else _NO_SETTING.get(cause.kind)
    if text is None or cause is None or cause.place is None:
        return ()
    if any(harm.place == cause.place for harm in harms):
        return ()
    return (Proof(None, text).told("cause", cause.place, 1),)


def _retaken(prover: Prover, pins: list[Prevention], until: int) -> tuple[Retaken, ...]:
    """From the first decision on that left its pin; of several routers, those of its router."""
    if not pins:
        return ()
    place = min(place_of(one.row) for one in pins)
    try:
        past = prover.past(prover.row(*place))
        return retaken(prover.source, past, until, pins)
    except NO_PROOF:
        return ()


def _rank(harm: Harm, cause: FirstCause | None) -> tuple[bool, int]:
    first = cause is not None and harm.place == cause.place
    return not first, _GRAVEST.index(harm.kind[0])
