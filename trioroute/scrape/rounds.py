"""Rounds of scraping: every replica every interval, none waiting for another (RULES 6.1)."""

import functools
import random as random_module
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence

import attrs
import trio

from trioroute.events.scrapes import Reading
from trioroute.events.words import Cause
from trioroute.scrape.fetch import (
    Bad,
    Good,
    Ours,
    ScrapeResult,
    ScrapeTarget,
    open_client,
    scrape_once,
)
from trioroute.scrape.notices import Notices

JITTER_SHARE = 0.08
"""Scrapes of a round are spread over this share of the interval."""

LOOK_S = 0.5
"""How often the targets are looked at between rounds: a new one is scraped within a second."""

GATHER_S = 0.25
"""How long the first reading of a batch waits for the others of its round."""

MODELS_EVERY = 20
"""Models are asked for again every so many scrapes."""

Fetch = Callable[[ScrapeTarget, bool], Awaitable[ScrapeResult]]


def _ignore(_replica: str, _result: str, _seconds: float) -> None:
    return None


@attrs.define(eq=False)
class _Replica:
    """One target's standing. Another url or key under the same name is another ``_Replica``."""

    target: ScrapeTarget
    notices: Notices
    scope: trio.CancelScope | None = None  # of the scrape that is open
    gone: bool = False
    ask_models: bool = True
    since_models: int = 0


class Rounds:
    """Scrapes the targets for ever and hands on what it finds.

    ``targets`` is asked again every half second. ``in_flight(name)`` is sampled at the moment a
    load page is complete. ``on_readings`` gets good readings in batches, as soon as no scrape is
    open any more or 250 ms after the first one waiting; ``on_failure`` gets a failure at once.
    ``on_scrape(name, result, seconds)`` is for counters: result is ``ok``, a cause of
    ``events.words``, ``router`` (could not ask) or ``skipped`` (the scrape before is still open).
    The callbacks are plain functions and must not raise: what they raise ends ``run``.
    ``known_models(name)`` is what the log knows; a reading names models only if they differ.
    """

    def __init__(
        self,
        *,
        interval_ms: int,
        timeout_ms: int,
        targets: Callable[[], Sequence[ScrapeTarget]],
        in_flight: Callable[[str], int],
        known_models: Callable[[str], tuple[str, ...]],
        on_readings: Callable[[Mapping[str, Reading]], None],
        on_failure: Callable[[str, Cause, int | None], None],
        on_scrape: Callable[[str, str, float], None] = _ignore,
        random: random_module.Random,
        tls: ssl.SSLContext | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        self._interval_s = interval_ms / 1000
        self._timeout_s = timeout_ms / 1000
        self._targets = targets
        self._known_models = known_models
        self._on_readings = on_readings
        self._on_failure = on_failure
        self._on_scrape = on_scrape
        self._random = random
        self._fetch = fetch or functools.partial(
            _over_http, tls or ssl.create_default_context(), in_flight, lambda: self._timeout_s
        )
        self._replicas: dict[str, _Replica] = {}
        self._open = 0  # scrapes now open
        self._next_at = 0.0
        self._first_round = trio.Event()
        self._batch: dict[str, Reading] = {}

    def renew(self, interval_ms: int, timeout_ms: int) -> None:
        """The configuration changed: let go of targets that are no more, at once.

        Nothing is sent to an old address after this, and no answer of it is taken. New targets are
        scraped within half a second.
        """
        self._interval_s = interval_ms / 1000
        self._timeout_s = timeout_ms / 1000
        self._next_at = min(self._next_at, trio.current_time() + self._interval_s)
        self._let_go({target.name: target for target in self._targets()})

    def refresh_models(self, name: str) -> None:
        """Ask this replica for its models at its next scrape. An unknown name is ignored."""
        if name in self._replicas:
            self._replicas[name].ask_models = True

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Scrape until cancelled.

        The first round starts at once and without jitter; ``started`` is called when it is
        complete, at the latest when its time is up.
        """
        async with trio.open_nursery() as nursery:
            self._next_at = trio.current_time() + self._interval_s
            self._meet(nursery)
            nursery.start_soon(self._announce, task_status)
            while True:
                await trio.sleep(max(0.0, min(LOOK_S, self._next_at - trio.current_time())))
                self._meet(nursery)
                now = trio.current_time()
                if now >= self._next_at:
                    self._next_at += self._interval_s
                    if self._next_at <= now:  # rounds missed in a sleep are not made up for
                        self._next_at = now + self._interval_s
                    self._round(nursery)

    async def _announce(self, task_status: trio.TaskStatus[None]) -> None:
        with trio.move_on_after(self._timeout_s + GATHER_S):
            if self._open:
                await self._first_round.wait()
        task_status.started()

    def _meet(self, nursery: trio.Nursery) -> None:
        """Scrape those who are new, let go of those who left."""
        current = {target.name: target for target in self._targets()}
        self._let_go(current)
        for name, target in current.items():
            if name not in self._replicas:
                replica = self._replicas[name] = _Replica(target, Notices(name))
                self._begin(nursery, replica, 0.0)

    def _let_go(self, current: Mapping[str, ScrapeTarget]) -> None:
        for name, replica in list(self._replicas.items()):
            if current.get(name) != replica.target:
                replica.gone = True
                del self._replicas[name]
                self._batch.pop(name, None)
                if replica.scope is not None:
                    replica.scope.cancel()

    def _round(self, nursery: trio.Nursery) -> None:
        for name, replica in self._replicas.items():
            delay_s = self._random.uniform(0.0, JITTER_SHARE * self._interval_s)
            if replica.scope is None:
                self._begin(nursery, replica, delay_s)
            else:
                self._on_scrape(name, "skipped", 0.0)

    def _begin(self, nursery: trio.Nursery, replica: _Replica, delay_s: float) -> None:
        replica.scope = trio.CancelScope()
        self._open += 1
        nursery.start_soon(self._scrape, nursery, replica, replica.scope, delay_s)

    async def _scrape(
        self, nursery: trio.Nursery, replica: _Replica, scope: trio.CancelScope, delay_s: float
    ) -> None:
        try:
            with scope:
                await trio.sleep(delay_s)
                ask = self._asks_models(replica)
                begun = trio.current_time()
                result = await self._fetch(replica.target, ask)
                if not replica.gone:
                    self._take(nursery, replica, ask, result, trio.current_time() - begun)
        finally:
            replica.scope = None
            self._open -= 1
        if not self._open:
            self._hand_on()
            self._first_round.set()

    def _asks_models(self, replica: _Replica) -> bool:
        if replica.target.models:
            return False
        replica.since_models += 1
        return (
            replica.ask_models
            or replica.since_models >= MODELS_EVERY
            or not self._known_models(replica.target.name)
        )

    def _take(
        self,
        nursery: trio.Nursery,
        replica: _Replica,
        asked: bool,
        result: ScrapeResult,
        seconds: float,
    ) -> None:
        name = replica.target.name
        match result:
            case Ours(why=why):
                replica.notices.unasked(why)
                self._on_scrape(name, "router", seconds)
            case Good(models_fault=Bad() as fault) if not self._known_models(name):
                self._fail(replica, fault, seconds)
            case Bad():
                self._fail(replica, result, seconds)
            case Good():
                if asked:
                    replica.ask_models = False
                    replica.since_models = 0
                expected = not replica.target.dialect.path  # nobody is told what was asked for
                replica.notices.good(has_load=result.page.has_load or expected)
                self._on_scrape(name, "ok", seconds)
                if name in self._batch:  # every good scrape counts, none replaces another
                    self._hand_on()
                if not self._batch:
                    nursery.start_soon(self._hand_on_later, self._batch)
                self._batch[name] = self._reading(name, result)

    def _fail(self, replica: _Replica, fault: Bad, seconds: float) -> None:
        name = replica.target.name
        replica.ask_models = True  # who comes back may be another engine with another model
        replica.notices.failed(fault.cause, fault.status)
        self._on_scrape(name, fault.cause, seconds)
        if name in self._batch:  # an older good reading must not overtake this failure
            self._hand_on()
        self._on_failure(name, fault.cause, fault.status)

    def _reading(self, name: str, good: Good) -> Reading:
        page = good.page
        changed = good.models is not None and good.models != self._known_models(name)
        return Reading(
            running=page.running,
            waiting=page.waiting,
            kv_m=page.kv_m,
            tokens=page.tokens,
            asleep=page.asleep,
            own=good.own,
            models=good.models if changed else None,
            cache_tokens=page.cache_tokens,
        )

    async def _hand_on_later(self, batch: dict[str, Reading]) -> None:
        await trio.sleep(GATHER_S)
        if batch is self._batch:
            self._hand_on()

    def _hand_on(self) -> None:
        batch, self._batch = self._batch, {}
        if batch:
            self._on_readings(batch)


async def _over_http(
    tls: ssl.SSLContext,
    in_flight: Callable[[str], int],
    timeout_s: Callable[[], float],
    target: ScrapeTarget,
    ask_models: bool,
) -> ScrapeResult:
    # A client of its own for every scrape costs 60 µs; a shared one keeps a dead entry in its pool
    # for each connect that is cancelled (httpcore 1.0), and a replica that is down is just that.
    async with open_client(tls) as client:
        return await scrape_once(
            client, target, ask_models=ask_models, in_flight=in_flight, timeout_s=timeout_s()
        )
