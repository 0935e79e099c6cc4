"""Scrapes of the simulated fleet, as the scraper of ``serve`` takes them (RULES 6.1).

A round every ``scrape.interval``, each replica at its own moment within 8 % of it. A reading is the
engine's at that moment with the router's count at that moment; it reaches the router with the
others of its round, 250 ms after the first at the latest: readings are stale on arrival.
"""

import random
from functools import partial

from trioroute.events import Reading
from trioroute.policy.commands import Observe, ObserveFailure
from trioroute.router import Router
from trioroute.simulate.clock import MS_NS, Clock
from trioroute.simulate.fleet import SimReplica

JITTER_SHARE = 0.08
GATHER_MS = 250


class Scraper:
    """Scrapes for ever; the first round is over when it is built: nobody arrives before it."""

    def __init__(
        self, clock: Clock, router: Router, fleet: dict[str, SimReplica], rng: random.Random
    ) -> None:
        self._clock = clock
        self._router = router
        self._fleet = fleet
        self._rng = rng
        self._batch: dict[str, Reading] = {}
        self._open = 0
        for replica in fleet.values():
            self._open += 1
            self._scrape(replica)
        self._hand_on()
        clock.after(router.state.settings.scrape.interval_ms, self._round)

    def _round(self) -> None:
        interval_ms = self._router.state.settings.scrape.interval_ms
        spread_ns = int(JITTER_SHARE * interval_ms) * MS_NS
        now_ns = self._clock.now_ns
        for replica in self._fleet.values():
            self._open += 1
            delay_ns = self._rng.randrange(spread_ns) if spread_ns else 0
            self._clock.at(now_ns + delay_ns, partial(self._scrape, replica))
        self._clock.after(interval_ms, self._round)

    def _scrape(self, replica: SimReplica) -> None:
        """Read one replica, or find that nothing listens there."""
        self._open -= 1
        name, clock = replica.name, self._clock
        if replica.down:
            if name in self._batch:  # an older good reading must not overtake this failure
                self._hand_on()
            self._router.handle(ObserveFailure(at_ms=clock.at_ms, replica=name, cause="refused"))
        else:
            own = self._router.state.load.replicas.get(name)
            if not self._batch:
                clock.after(GATHER_MS, self._hand_on)
            self._batch[name] = replica.reading(own.own if own is not None else 0)
        if not self._open:
            self._hand_on()

    def _hand_on(self) -> None:
        batch, self._batch = self._batch, {}
        if batch:
            self._router.handle(Observe(at_ms=self._clock.at_ms, readings=batch))
