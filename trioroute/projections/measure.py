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


def measure(load: ReplicaLoad, at_ms: int, settings: InForce) -> Measured:
    own = load.own
    fresh_ms = settings.scrape.interval_ms * settings.scrape.stale_after
    stale = load.read_at_ms == 0 or at_ms - load.read_at_ms > fresh_ms
    if stale:
        running_m = own * 1000
        return Measured(running_m, 0, max(running_m, load.wlc_m), 0, True)
    if settings.policy.load == "literal":
        scraped_m = load.running * 1000
        running_m = max(scraped_m, load.wlc_m)
        waiting_m = load.waiting * 1000 + max(0, load.wlc_m - scraped_m)
        return Measured(running_m, waiting_m, running_m, waiting_m, False)
    present = max(0, load.running + load.waiting - load.own_at_scrape) + own
    waiting = max(0, present - load.running) if load.waiting else 0
    running_m = (present - waiting) * 1000
    waiting_m = waiting * 1000
    return Measured(running_m, waiting_m, max(running_m, load.wlc_m), waiting_m, False)
