"""A whole run in virtual time: clients, the real router, simulated replicas, scrapes and faults."""

import random
from collections.abc import Callable
from functools import partial

import attrs

import trioroute
from trioroute.events import InForce
from trioroute.policy import RULES_VERSION
from trioroute.policy import commands as c
from trioroute.policy.policies import Chooser
from trioroute.projections import State
from trioroute.router import Log, Router
from trioroute.simulate.baselines import Sight
from trioroute.simulate.clock import MS_NS, Clock
from trioroute.simulate.faults import Fault
from trioroute.simulate.fleet import SimReplica
from trioroute.simulate.measures import Measures
from trioroute.simulate.profiles import EngineProfile
from trioroute.simulate.scraping import Scraper
from trioroute.simulate.script import MODEL, Workload
from trioroute.simulate.sinks import ROUTER, CountingLog
from trioroute.simulate.traffic import Traffic
from trioroute.simulate.trouble import arrange

TICK_MS = 1000


@attrs.frozen(kw_only=True)
class Setting:
    """What one run is made of. ``chooser`` replaces the policy in force, for baselines; ``sight``
    is what that chooser looks at; ``with_keys`` is off for those that have no pins."""

    workload: Workload
    engine: EngineProfile
    replicas: int = 4
    seed: int = 0
    in_force: InForce = attrs.field(factory=InForce)
    faults: tuple[Fault, ...] = ()
    chooser: Chooser | None = None
    sight: Sight = attrs.field(factory=Sight)
    with_keys: bool = True


class World:
    """Built, it stands at time 0 with replicas joined and the first scrapes to come."""

    def __init__(self, setting: Setting, log: Log | None = None) -> None:
        self.setting = setting
        self.clock = Clock()
        self.measures = Measures()
        self.router = Router(State(), log or CountingLog(), chooser=setting.chooser)
        self.router.listeners.append(partial(self.measures.listen, self.router.state))
        self.fleet: dict[str, SimReplica] = {}
        self.traffic = Traffic(
            self.clock,
            self.router,
            self.fleet,
            self.measures,
            random.Random(f"{setting.seed}/draw"),
            with_keys=setting.with_keys,
            sight=setting.sight,
        )
        for number in range(1, setting.replicas + 1):
            name = f"gpu{number}"
            self.fleet[name] = SimReplica(
                name,
                setting.engine,
                self.clock,
                on_first=self.traffic.first_token,
                on_done=self.traffic.done,
                on_cut=self.traffic.cut,
            )
        self._open()
        Scraper(self.clock, self.router, self.fleet, random.Random(f"{setting.seed}/jitter"))
        self.clock.after(TICK_MS, self._tick)
        for fault in setting.faults:
            arrange(fault, self.fleet[f"gpu{fault.replica}"], self.clock, self.router, self.traffic)
        self.traffic.begin(setting.workload.scripts)

    def run(
        self, until_ms: int | None = None, on_ended: Callable[[int], None] | None = None
    ) -> None:
        """Run until every request is over, or until ``until_ms`` of the run if that is given.

        ``on_ended`` is told now and then how many requests are over.
        """
        total, told = self.setting.workload.requests, 0
        limit_ns = None if until_ms is None else until_ms * MS_NS
        clock, traffic = self.clock, self.traffic
        while (traffic.pending or limit_ns is not None) and clock.step(limit_ns):
            if on_ended is not None and total - traffic.pending >= told + 100:
                told = total - traffic.pending
                on_ended(told)
        if on_ended is not None:
            on_ended(total - traffic.pending)

    def close(self) -> None:
        """End the router's log in order."""
        self.router.handle(c.Stop(at_ms=self.clock.at_ms, cause="simulation over"))

    def _open(self) -> None:
        at_ms, router = self.clock.at_ms, self.router
        router.handle(
            c.Start(at_ms=at_ms, router=ROUTER, release=trioroute.__version__, rules=RULES_VERSION)
        )
        router.handle(c.Configure(at_ms=at_ms, settings=self.setting.in_force))
        for name in self.fleet:
            url = f"http://{name}:8000"
            router.handle(c.Join(at_ms=at_ms, replica=name, url=url, models=(MODEL,)))

    def _tick(self) -> None:
        self.router.handle(c.Tick(at_ms=self.clock.at_ms))
        self.clock.after(TICK_MS, self._tick)
