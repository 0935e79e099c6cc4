"""What the state says of a replica's load now: the formulas of RULES 3, in thousandths.

A reading is stale the moment it is taken, in both directions: what the router sent since is
missing, what ended since is still counted. So it is carried forward by the router's own count.
"""

import attrs

from trioroute.events.sections import InForce
from trioroute.events.words import ReplicaState
from trioroute.projections.fleet import Replica
from trioroute.projections.health import Health
from trioroute.projections.load import ReplicaLoad

ROUTABLE: tuple[ReplicaState, ...] = ("LIVE", "PROBING")
"""The states that take new requests (RULES 4, step 1)."""


@attrs.define
class Measured:
    """``running_m`` and ``waiting_m`` count requests; ``effective_*`` is what RULES 4 compares.

    ``stale``: no reading with load series within the limit; judged by the router's own requests.
    Not frozen, though nobody changes one: a frozen one costs four times as much to make.
    """

    running_m: int
    waiting_m: int
    effective_running_m: int
    effective_waiting_m: int
    stale: bool


def standing(replica: Replica, health: Health) -> ReplicaState:
    """The state as everyone sees it: drained by hand beats all, an engine asleep has not joined.

    Sleep is RULES 6.11; it ends with the first scrape that finds the engine awake.
    """
    if replica.draining:
        return "DRAINING"
    if health.asleep and health.stage in ("LIVE", "PROBING"):
        return "JOINING"
    return health.stage


Loads = tuple[int, int, int, int, bool]
"""The fields of ``Measured``: a decision asks this of every replica, and a tuple is cheap."""


def measure(load: ReplicaLoad, at_ms: int, settings: InForce) -> Measured:
    return Measured(*loads(load, at_ms, stale_ms(settings), settings.policy.load == "literal"))


def stale_ms(settings: InForce) -> int:
    """How old a reading may be."""
    return settings.scrape.interval_ms * settings.scrape.stale_after


def loads(load: ReplicaLoad, at_ms: int, fresh_ms: int, literal: bool) -> Loads:
    """``measure`` for who asks it of many replicas at once."""
    own, wlc_m = load.own, load.wlc_m
    if load.read_at_ms == 0 or at_ms - load.read_at_ms > fresh_ms:
        running_m = own * 1000
        return running_m, 0, max(wlc_m, running_m), 0, True
    if literal:
        scraped_m = load.running * 1000
        running_m = max(scraped_m, wlc_m)
        waiting_m = load.waiting * 1000 + max(0, wlc_m - scraped_m)
        return running_m, waiting_m, running_m, waiting_m, False
    seen = load.running + load.waiting - load.own_at_scrape
    present = own + seen if seen > 0 else own
    waiting = max(0, present - load.running) if load.waiting else 0
    running_m = (present - waiting) * 1000
    return (
        running_m,
        waiting * 1000,
        max(wlc_m, running_m),
        waiting * 1000,
        False,
    )
