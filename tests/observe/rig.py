"""A router on a list for a log, with traffic made by hand, and its metrics read back."""

from collections.abc import Sequence
from typing import Any

import attrs

from eventlog.record import Entry
from trioroute.events import Configured, InForce, Reading, decode
from trioroute.events.codec import KINDS
from trioroute.events.words import Outcome
from trioroute.observe import Exporter, Feed, Seen, Timings
from trioroute.observe.exporter import StateCollector
from trioroute.policy.commands import Arrive, Configure, Fail, Finish, Join, Observe, Start
from trioroute.projections import State
from trioroute.router import Router

T0_MS = 1_700_000_000_000
MODEL = "qwen3-32b"


@attrs.define
class ListLog:
    """Takes everything; three events behind with its commits."""

    taken: list[Entry] = attrs.field(factory=list)
    bytes: int = 4096
    head: str = "7:00112233445566778899aabbccddeeff"
    closed_head: str | None = None
    failing: str = ""

    @property
    def position(self) -> int:
        return len(self.taken)

    @property
    def durable_position(self) -> int:
        return max(0, len(self.taken) - 3)

    def offer(self, entries: Sequence[Entry], *, must_take: bool = False) -> int:
        first = len(self.taken) + 1
        self.taken.extend(entries)
        return first


def reading(running: int | None = 0, waiting: int | None = 0, **more: Any) -> Reading:
    values: dict[str, Any] = {"kv_m": None, "tokens": None, "asleep": False, "own": 0} | more
    return Reading(running=running, waiting=waiting, **values)


def settings_of(entry: Entry) -> InForce | None:
    if entry.kind != "Configured":
        return None
    event = decode(entry.kind, KINDS[entry.kind].schema, entry.body)
    assert isinstance(event, Configured)
    return event.settings


@attrs.define
class Rig:
    """A started router; ``now_ms`` moves by hand."""

    now_ms: int = T0_MS
    log: ListLog = attrs.field(factory=ListLog)
    timings: Timings = attrs.field(factory=Timings)
    router: Router = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.router = Router(State(), self.log)
        self.router.listeners.append(
            lambda told: self.timings.exemplars.note(told.first, told.events, self.state.at_ms)
        )
        self.handle(Start, router="r1", release="0", rules=1)
        self.handle(Configure, settings=InForce())

    @property
    def state(self) -> State:
        return self.router.state

    def handle(self, command: type, **values: Any) -> int:
        """The version of the first event that the command led to."""
        return self.router.handle(command(at_ms=self.now_ms, **values)).first

    def join(self, *names: str, models: tuple[str, ...] = (MODEL,)) -> None:
        for name in names:
            self.handle(Join, replica=name, url=f"http://{name}:8000", models=models)

    def scrape(self, **readings: Reading) -> None:
        self.handle(Observe, readings=readings)

    def live(self, *names: str, models: tuple[str, ...] = (MODEL,)) -> None:
        self.join(*names, models=models)
        self.scrape(**{name: reading() for name in names})

    def arrive(self, model: str = MODEL, prompt_bytes: int = 4000, **more: Any) -> int:
        number = len(self.log.taken)
        values = {"request_id": f"q{number}", "model": model, "prompt_bytes": prompt_bytes}
        return self.handle(Arrive, **values, **more)

    def finish(self, dispatch: int, outcome: Outcome = "ok", **more: Any) -> None:
        values = {"cause": "none", "blame": "none", "status": 200, "bytes": 10, "ttfb_ms": 40}
        values |= {"duration_ms": 700, "prompt_tokens": 1000, "completion_tokens": 50} | more
        self.handle(Finish, dispatch=dispatch, outcome=outcome, **values)

    def refuse_connection(self, dispatch: int) -> None:
        self.handle(Fail, dispatch=dispatch, cause="refused", blame="replica")

    def past(self, after: int, limit: int) -> list[Seen]:
        """What is committed of the list, as a log is read."""
        end = min(after + limit, self.log.durable_position)
        some = enumerate(self.log.taken[after:end], start=after + 1)
        return [
            Seen(version, entry.at_ms, entry.kind, entry.body, settings_of(entry))
            for version, entry in some
        ]

    def in_force_before(self, version: int) -> InForce | None:
        found = [settings_of(entry) for entry in self.log.taken[: version - 1]]
        return next((one for one in reversed(found) if one is not None), None)

    def feed(self) -> Feed:
        """Listens from now on."""
        settings = self.state.settings
        feed = Feed(self.log, lambda: self.state.at_ms, self.past, settings, self.in_force_before)
        self.router.listeners.append(lambda told: feed.note(told.first, told.events))
        return feed

    def exporter(self) -> Exporter:
        collector = StateCollector(
            lambda: self.state, lambda: self.now_ms, self.timings, self.log, "1.2.3"
        )
        return Exporter(collector)
