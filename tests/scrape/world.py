"""A scripted fleet for ``Rounds``: what each replica answers, and a record of all that happened."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio
import trio.testing

from trioroute.events.scrapes import Reading
from trioroute.events.words import Cause
from trioroute.scrape.fetch import Good, ScrapeResult, ScrapeTarget
from trioroute.scrape.page import PageReading
from trioroute.scrape.rounds import Fetch, Rounds

BUSY = PageReading(running=2, waiting=1, kv_m=500, tokens=9)
GOOD = Good(page=BUSY, own=4)
READ = Reading(running=2, waiting=1, kv_m=500, tokens=9, asleep=False, own=4)

Answer = Callable[[bool], Awaitable[ScrapeResult]]


def after(seconds: float, result: ScrapeResult = GOOD) -> Answer:
    async def answer(_ask_models: bool) -> ScrapeResult:
        await trio.sleep(seconds)
        return result

    return answer


@attrs.define
class World:
    """Targets that a test can change, and a record of all that happened and when."""

    targets: dict[str, ScrapeTarget] = attrs.field(factory=dict)
    answers: dict[str, Answer] = attrs.field(factory=dict)
    known: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    scraped: list[tuple[float, str, bool]] = attrs.field(factory=list)
    batches: list[tuple[float, Mapping[str, Reading]]] = attrs.field(factory=list)
    failures: list[tuple[float, str, Cause, int | None]] = attrs.field(factory=list)
    counted: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    open: Counter[str] = attrs.field(factory=Counter)
    most_open: int = 0

    def add(
        self,
        name: str,
        answer: Answer | None = None,
        *,
        models: tuple[str, ...] = ("m",),
        url: str = "http://a",
    ) -> None:
        self.targets[name] = ScrapeTarget(name=name, url=url, models=models)
        self.answers[name] = answer or after(0.01)

    async def fetch(self, replica: ScrapeTarget, ask_models: bool) -> ScrapeResult:
        self.scraped.append((trio.current_time(), replica.name, ask_models))
        self.open[replica.name] += 1
        self.most_open = max(self.most_open, *self.open.values())
        try:
            return await self.answers[replica.name](ask_models)
        finally:
            self.open[replica.name] -= 1

    def rounds(
        self, *, interval_ms: int = 3000, timeout_ms: int = 2000, fetch: Fetch | None
    ) -> Rounds:
        def count(name: str, result: str, _seconds: float) -> None:
            self.counted[name, result] += 1

        return Rounds(
            interval_ms=interval_ms,
            timeout_ms=timeout_ms,
            targets=lambda: list(self.targets.values()),
            in_flight=lambda _: 7,
            known_models=lambda name: self.known.get(name, ()),
            on_readings=lambda batch: self.batches.append((trio.current_time(), dict(batch))),
            on_failure=lambda *failure: self.failures.append((trio.current_time(), *failure)),
            on_scrape=count,
            random=random.Random(5),
            fetch=fetch,
        )

    def times(self, name: str) -> list[float]:
        return [at for at, who, _ in self.scraped if who == name]


async def start(world: World, nursery: trio.Nursery, interval_ms: int = 3000) -> Rounds:
    rounds = world.rounds(interval_ms=interval_ms, fetch=world.fetch)
    await nursery.start(rounds.run)
    return rounds
