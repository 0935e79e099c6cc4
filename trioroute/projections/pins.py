"""Pins: soft ties from a key to a replica, and the responses that replicas hold (RULES 5)."""

import zlib

import attrs

from trioroute.events import Bound, Dispatched, Rebound, Spilled, Unbound
from trioroute.events.words import PinKind


@attrs.define(slots=True)
class Pin:
    """``spills`` counts in a row; ``running`` is how many requests use it at the moment.

    ``mark`` is its part of ``Pins.digest``, so that it need not be made again to be taken out; 0
    while it is not known, as in a snapshot.
    """

    replica: str
    bound_ms: int
    used_ms: int
    bound_by: int
    spills: int = 0
    running: int = 0
    mark: int = attrs.field(default=0, init=False, eq=False, repr=False)


@attrs.define(slots=True)
class Held:
    """A response that only ``replica`` can continue (RULES 5.11)."""

    replica: str
    at_ms: int


@attrs.define(slots=True)
class Pins:
    """Tables in order of last use; ``bound_order`` keeps the prefixes in order of binding.

    ``running`` counts each session's requests in flight, pinned or not, so that a pin that was
    evicted and bound anew still knows of the requests before. ``digest`` is the sum of a checksum
    per pin, kept up to date at each change, so that checking a hundred thousand costs nothing.
    """

    session: dict[str, Pin] = attrs.field(factory=dict)
    prefix: dict[str, Pin] = attrs.field(factory=dict)
    bound_order: dict[str, None] = attrs.field(factory=dict)
    response: dict[str, Held] = attrs.field(factory=dict)
    running: dict[str, int] = attrs.field(factory=dict)
    digest: int = 0

    def table(self, kind: PinKind) -> dict[str, Pin]:
        return self.session if kind == "session" else self.prefix


def checksum(kind: PinKind, key: str, pin: Pin) -> int:
    """One pin's part of ``Pins.digest``."""
    text = f"{kind}\0{key}\0{pin.replica}\0{pin.spills}\0{pin.bound_by}"
    return zlib.crc32(text.encode())


def _mark(pins: Pins, kind: PinKind, key: str, pin: Pin) -> None:
    pin.mark = checksum(kind, key, pin)
    pins.digest = (pins.digest + pin.mark) & _DIGEST_BITS


def _unmark(pins: Pins, kind: PinKind, key: str, pin: Pin) -> None:
    """Before the pin changes."""
    pins.digest = (pins.digest - (pin.mark or checksum(kind, key, pin))) & _DIGEST_BITS


_DIGEST_BITS = 0x7FFF_FFFF_FFFF_FFFF


def bind(pins: Pins, at_ms: int, event: Bound) -> None:
    _drop(pins, event.kind, event.key)
    pin = Pin(event.replica, at_ms, at_ms, event.dispatch)
    if event.kind == "session":
        pin.running = pins.running.get(event.key, 0)
    else:
        pins.bound_order[event.key] = None
    pins.table(event.kind)[event.key] = pin
    _mark(pins, event.kind, event.key, pin)


def rebind(pins: Pins, at_ms: int, event: Rebound) -> None:
    pin = pins.table(event.kind).get(event.key)
    if pin is None:
        return
    _unmark(pins, event.kind, event.key, pin)
    pin.replica = event.replica
    pin.bound_ms = at_ms
    pin.bound_by = event.dispatch
    pin.spills = 0
    if event.kind == "prefix":
        pins.bound_order.pop(event.key, None)
        pins.bound_order[event.key] = None
    _mark(pins, event.kind, event.key, pin)


def spill(pins: Pins, event: Spilled) -> None:
    pin = pins.table(event.kind).get(event.key)
    if pin is not None:
        _set_spills(pins, event.kind, event.key, pin, event.count)


def _set_spills(pins: Pins, kind: PinKind, key: str, pin: Pin, count: int) -> None:
    if pin.spills != count:
        before = pin.mark or checksum(kind, key, pin)
        pin.spills = count
        pin.mark = checksum(kind, key, pin)
        pins.digest = (pins.digest - before + pin.mark) & _DIGEST_BITS


def unbind(pins: Pins, event: Unbound) -> None:
    _drop(pins, event.kind, event.key)


def _drop(pins: Pins, kind: PinKind, key: str) -> None:
    pin = pins.table(kind).pop(key, None)
    if pin is None:
        return
    _unmark(pins, kind, key, pin)
    if kind == "prefix":
        pins.bound_order.pop(key, None)


def dispatch(pins: Pins, at_ms: int, event: Dispatched) -> None:
    """A request that reached its pin's replica used the pin (RULES 5.4).

    The prefix pin was looked at if it was the reason or the session has none; a session pin beside
    the reason ``affinity:prefix`` had expired, and an ``Unbound`` follows.
    """
    session = event.session
    if session is not None:
        running = pins.running[session] = pins.running.get(session, 0) + 1
        pin = pins.session.pop(session, None)
        if pin is not None:
            pins.session[session] = pin  # used last
            pin.running, pin.used_ms = running, at_ms
            if pin.spills and pin.replica == event.replica:
                _set_spills(pins, "session", session, pin, 0)
            if event.reason != "affinity:prefix":
                return
    if event.prefix is not None and event.home is not None:
        pin = pins.prefix.pop(event.prefix, None)
        if pin is not None:
            pins.prefix[event.prefix] = pin
            pin.used_ms = at_ms
            if pin.spills and pin.replica == event.replica:
                _set_spills(pins, "prefix", event.prefix, pin, 0)


def land(pins: Pins, at_ms: int, session: str) -> None:
    """A request ended: until here its session counted as in use (RULES 5.3)."""
    running = pins.running.get(session, 0) - 1
    if running > 0:
        pins.running[session] = running
    else:
        running = 0
        pins.running.pop(session, None)
    pin = pins.session.pop(session, None)
    if pin is not None:
        pins.session[session] = pin
        pin.running, pin.used_ms = running, at_ms


def hold(pins: Pins, at_ms: int, response: str, replica: str, bound: int, ttl_ms: int) -> None:
    """Remember who made a response; the oldest go first, by age and by number (RULES 5.11)."""
    pins.response.pop(response, None)
    pins.response[response] = Held(replica, at_ms)
    for key, held in list(_first(pins.response)):
        if len(pins.response) <= bound and held.at_ms + ttl_ms > at_ms:
            break
        del pins.response[key]


def _first(table: dict[str, Held]) -> list[tuple[str, Held]]:
    oldest: list[tuple[str, Held]] = []
    for item in table.items():
        oldest.append(item)
        if len(oldest) == 8:
            break
    return oldest


def restart(pins: Pins, at_ms: int) -> None:
    """No pin was used later than now (a clock may have been ahead).

    What was running is closed, and its session used, by the ``Orphaned`` that follows.
    """
    for table in (pins.session, pins.prefix):
        for pin in table.values():
            pin.used_ms = min(pin.used_ms, at_ms)
            pin.bound_ms = min(pin.bound_ms, at_ms)
    for held in pins.response.values():
        held.at_ms = min(held.at_ms, at_ms)
