"""Running the sources, and keeping what they told: one nursery, one scope a source."""

import logging
from collections.abc import Callable, Sequence

import attrs
import trio

from trioroute.counted import plural
from trioroute.discovery.found import FOUND_MAX, Found, Source
from trioroute.discovery.reconcile import Picture, reconcile
from trioroute.policy import commands as c
from trioroute.projections import State
from trioroute.settings import DiscoverySetting

logger = logging.getLogger("trioroute.discovery")

AGAIN_S = 1.0
"""How often the fleet is compared without news: a reload, a full log or an admin changed it."""

GONE_MAX = 10_000
AWAIT_FIRST_S = 2.0
"""How long a start waits for the first lists."""

Make = Callable[[DiscoverySetting], Source]


@attrs.define
class Standing:
    """How a source does. ``last_success_ms`` 0: no list since the start. ``failing``: why there is
    none now, empty if there is."""

    last_success_ms: int = 0
    replicas: int = 0
    failing: str = ""


@attrs.define(eq=False)
class _Running:
    """One source that runs, and where it tells. ``listed`` is its last list, None before it."""

    source: Source
    setting: DiscoverySetting
    told: Callable[["_Running", Sequence[Found]], None]
    standing: Standing
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    listed: tuple[Found, ...] | None = None

    def found(self, replicas: Sequence[Found]) -> None:
        if len(replicas) > FOUND_MAX:
            self.outage(
                f"lists {plural(len(replicas), 'replica')}; more than {FOUND_MAX} are not believed"
            )
            return
        if self.standing.failing:
            told = plural(len(replicas), "replica")
            logger.info("discovery %s: tells %s again", self.source.name, told)
            self.standing.failing = ""
        self.told(self, replicas)

    def outage(self, why: str) -> None:
        if why != self.standing.failing:
            kept = "the last known replicas stay"
            logger.warning("discovery %s: %s; %s", self.source.name, why, kept)
        self.standing.failing = why


class Discovery:
    """All sources together. ``handle`` takes the commands that make the fleet agree with them.

    ``standings`` tells by name how each source does, for metrics and ``/state``.
    """

    def __init__(
        self,
        *,
        state: Callable[[], State],
        now_ms: Callable[[], int],
        handle: Callable[[Sequence[c.Command]], None],
        make: Make,
    ) -> None:
        self._state = state
        self._now_ms = now_ms
        self._handle = handle
        self._make = make
        self._running: list[_Running] = []
        self._gone: dict[str, str] = {}
        self._nursery: trio.Nursery | None = None
        self._settings: tuple[DiscoverySetting, ...] = ()
        self._first = trio.Event()
        self.standings: dict[str, Standing] = {}

    def renew(self, settings: Sequence[DiscoverySetting]) -> None:
        """Run these sources and no others. What a source that goes on has told stands."""
        self._settings = tuple(settings)
        if self._nursery is None:
            return
        kept = [one for one in self._running if one.setting in self._settings]
        for one in self._running:
            if one not in kept:
                one.scope.cancel()
        known = [one.setting for one in kept]
        for setting in self._settings:
            if setting not in known:
                source = self._make(setting)
                running = _Running(source, setting, self._told, Standing())
                kept.append(running)
                self._nursery.start_soon(self._watch, running)
        self._running = kept
        self.standings.clear()
        self.standings.update({one.source.name: one.standing for one in kept})

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled. Started when each source has told a first list, in two seconds at
        the latest, so that a router that was restarted is not ready before it knows its fleet."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self.renew(self._settings)
            nursery.start_soon(self._announce, task_status)
            while True:
                self._compare()
                await trio.sleep(AGAIN_S)

    async def _announce(self, task_status: trio.TaskStatus[None]) -> None:
        with trio.move_on_after(AWAIT_FIRST_S):
            if self._running:
                await self._first.wait()
        task_status.started()

    async def _watch(self, running: _Running) -> None:
        with running.scope:
            await running.source.watch(running)

    def _told(self, running: _Running, replicas: Sequence[Found]) -> None:
        listed = tuple(replicas)
        running.standing.last_success_ms = self._now_ms()
        running.standing.replicas = len(listed)
        before, running.listed = running.listed, listed
        now = {found.name for found in listed}
        for found in before or ():
            if found.name not in now and len(self._gone) < GONE_MAX:
                self._gone[found.name] = running.source.name
        if before != listed:
            self._compare()
        if self._complete():
            self._first.set()

    def _complete(self) -> bool:
        return all(one.listed is not None for one in self._running)

    def _compare(self) -> None:
        found: dict[str, Found] = {}
        whose: dict[str, str] = {}
        for one in self._running:
            for each in one.listed or ():
                if each.name not in found:
                    found[each.name] = each
                    whose[each.name] = one.source.name
        fleet = self._state().fleet.replicas
        self._gone = {n: by for n, by in self._gone.items() if n in fleet and n not in found}
        picture = Picture(found=found, whose=whose, gone=self._gone, complete=self._complete())
        commands = reconcile(self._state(), picture, self._now_ms())
        if commands:
            self._handle(commands)
