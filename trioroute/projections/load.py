"""What is in flight, what the replicas last said, and whose turn it is (RULES 3)."""

from collections.abc import Container

import attrs

from trioroute.events import Dispatched, Reading, Released, ReplicaLeft, Scraped

CALIBRATION_TOKENS_MAX = 1 << 22
"""Past this many tokens both sums are halved, so that the ratio follows what is served now."""

CALIBRATION_TOKENS_MIN = 1 << 14
"""Below this much evidence the configured bytes per token stand."""


@attrs.define(slots=True)
class Flight:
    """One dispatch that has no end yet."""

    replica: str
    model: str
    request_id: str
    weight_m: int
    prompt_bytes: int
    session: str | None
    at_ms: int
    attempt: int


@attrs.define(slots=True)
class ReplicaLoad:
    """``own`` and ``wlc_m`` are sums over the flights; the rest is the last good reading.

    ``read_at_ms`` is 0 until a reading held both load series; only such a reading replaces them,
    so that a missing metric stays unknown and goes stale instead of reading as zero.
    """

    own: int = 0
    wlc_m: int = 0
    running: int = 0
    waiting: int = 0
    own_at_scrape: int = 0
    read_at_ms: int = 0
    kv_m: int | None = None
    cache_tokens: int | None = None
    last: Reading | None = None


@attrs.define(slots=True)
class Calibration:
    """Prompt bytes and the prompt tokens that replicas reported for them."""

    bytes: int = 0
    tokens: int = 0


@attrs.define(slots=True)
class Load:
    """``cursor`` holds, per model, the ordinal of the replica that step 3 chose last."""

    replicas: dict[str, ReplicaLoad] = attrs.field(factory=dict)
    flights: dict[int, Flight] = attrs.field(factory=dict)
    cursor: dict[str, int] = attrs.field(factory=dict)
    calibration: dict[str, Calibration] = attrs.field(factory=dict)

    def of(self, replica: str) -> ReplicaLoad:
        """The load of a replica; made at its first mention."""
        load = self.replicas.get(replica)
        if load is None:
            load = self.replicas[replica] = ReplicaLoad()
        return load

    def bytes_per_token_m(self, model: str, configured_m: int) -> int:
        """Thousandths of bytes a token: measured once there is evidence, kept within 1 to 16."""
        seen = self.calibration.get(model)
        if seen is None or seen.tokens < CALIBRATION_TOKENS_MIN:
            return configured_m
        measured_m = seen.bytes * 1000 // seen.tokens
        if 1000 <= measured_m <= 16_000:
            return measured_m
        return 1000 if measured_m < 1000 else 16_000


def dispatch(load: Load, version: int, at_ms: int, event: Dispatched, ordinal: int | None) -> None:
    own = load.replicas.get(event.replica) or load.of(event.replica)
    own.own += 1
    own.wlc_m += event.weight_m
    load.flights[version] = Flight(
        event.replica,
        event.model,
        event.request_id,
        event.weight_m,
        event.prompt_bytes,
        event.session,
        at_ms,
        event.attempt,
    )
    if event.reason == "load" and ordinal is not None:
        load.cursor[event.model] = ordinal


def land(load: Load, dispatch_number: int, fleet: Container[str]) -> Flight | None:
    """Give the reservation back, once: a second end of the same dispatch changes nothing.

    A replica that left the ``fleet`` is forgotten with its last flight.
    """
    flight = load.flights.pop(dispatch_number, None)
    if flight is None:
        return None
    own = load.replicas.get(flight.replica) or load.of(flight.replica)
    own.own -= 1
    own.wlc_m -= flight.weight_m
    if own.own == 0 and flight.replica not in fleet:
        del load.replicas[flight.replica]
    return flight


def release(load: Load, event: Released, flight: Flight) -> None:
    """Learn bytes per token from what the replica counted (RULES 3)."""
    if not event.prompt_tokens or not flight.prompt_bytes:
        return
    seen = load.calibration.get(flight.model)
    if seen is None:
        seen = load.calibration[flight.model] = Calibration()
    seen.bytes += flight.prompt_bytes
    seen.tokens += event.prompt_tokens
    if seen.tokens > CALIBRATION_TOKENS_MAX:
        seen.bytes //= 2
        seen.tokens //= 2


def read(load: Load, at_ms: int, event: Scraped) -> None:
    for name, reading in event.readings.items():
        _take(load.of(name), at_ms, reading)
    for name in event.same:
        own = load.of(name)
        if own.last is not None:
            _take(own, at_ms, own.last)


def _take(own: ReplicaLoad, at_ms: int, reading: Reading) -> None:
    own.last = reading
    own.kv_m = reading.kv_m
    own.cache_tokens = reading.cache_tokens
    if reading.running is None or reading.waiting is None:
        return
    own.running = reading.running
    own.waiting = reading.waiting
    own.own_at_scrape = reading.own
    own.read_at_ms = at_ms


def leave(load: Load, event: ReplicaLeft) -> None:
    own = load.replicas.get(event.replica)
    if own is not None and own.own == 0:
        del load.replicas[event.replica]
