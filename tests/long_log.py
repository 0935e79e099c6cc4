"""A long log of real decisions, made fast: ``python -m tests.long_log DIRECTORY EVENTS``.

200 requests a second over eight replicas, some 400 in flight, agent sessions of thirty turns, a
scrape every three seconds, a replica that goes every ten minutes, a retry now and then, a restart
every two hours. Every row is what the router itself decided, so all of it can be verified.
"""

import heapq
import random
import sys
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import attrs

from eventlog import Entry
from eventlog.sqlite import SegmentLimits, SqliteStore
from tests.replay.rig import STREAM
from trioroute import events as e
from trioroute.events.views import VIEWS
from trioroute.events.words import Cause
from trioroute.policy import commands as c
from trioroute.policy.keys import DIGEST_BYTES
from trioroute.projections import State
from trioroute.router import Router

RATE_PER_S = 200
REPLICAS = tuple(f"gpu{n}" for n in range(1, 9))
MODEL = "qwen3-32b"
TURNS = 30
SESSIONS = 2000
PREFIXES = 20
BEGIN_MS = 1_700_000_000_000
EJECT_EVERY_MS = 600_000
OUT_MS = 90_000
RESTART_EVERY_MS = 7_200_000
BATCH = 2000
SEGMENT_BYTES = 256 << 20


@attrs.define
class StoreLog:
    """The journal of it: straight into a store."""

    store: SqliteStore
    version: int = 0
    waiting: list[Entry] = attrs.field(factory=list)

    def offer(self, entries: Sequence[Entry], *, must_take: bool = False) -> int:
        first = self.version + len(self.waiting) + 1
        self.waiting += entries
        if len(self.waiting) >= BATCH:
            self.flush()
        return first

    def flush(self) -> None:
        if self.waiting:
            self.store.append(STREAM, self.waiting, self.version)
            self.version += len(self.waiting)
            self.waiting = []


@attrs.define
class Course:
    """What arrives and ends, in virtual time."""

    log: StoreLog
    dice: random.Random
    router: Router
    at_ms: int = BEGIN_MS
    number: int = 0
    out: str = ""
    ends: list[tuple[int, int, c.Arrive]] = attrs.field(factory=list)
    sessions: list[tuple[str, str, int, int]] = attrs.field(factory=list)

    def do(self, command: c.Command) -> tuple[int, tuple[e.Event, ...]]:
        decided = self.router.handle(command)
        return decided.first, decided.events

    def start(self) -> None:
        self.do(c.Start(at_ms=self.at_ms, router="r1", release="0", rules=1))
        self.do(c.Configure(at_ms=self.at_ms, settings=e.InForce()))
        for name in REPLICAS:
            url = f"http://{name}.internal:8000"
            self.do(c.Join(at_ms=self.at_ms, replica=name, url=url, models=(MODEL,)))
        self.scrape()

    def scrape(self) -> None:
        readings = {}
        for name in REPLICAS:
            if name == self.out:
                continue
            own = self.router.state.load.of(name).own
            tokens = self.at_ms // 10
            readings[name] = e.Reading(
                running=own, waiting=0, kv_m=own * 10, tokens=tokens, asleep=False, own=own
            )
        self.do(c.Observe(at_ms=self.at_ms, readings=readings))
        if self.out:
            self.do(c.ObserveFailure(at_ms=self.at_ms, replica=self.out, cause="refused"))
        for _ in range(2):
            self.do(c.Tick(at_ms=self.at_ms))

    def session(self) -> tuple[str, str, int]:
        """The keys and the prompt of the next turn of some session."""
        dice = self.dice
        if len(self.sessions) < SESSIONS:
            key, prefix = _digest(dice.getrandbits(96)), _digest(dice.randrange(PREFIXES))
            self.sessions.append((key, prefix, 0, 2000))
        place = dice.randrange(len(self.sessions))
        key, prefix, turn, tokens = self.sessions[place]
        if turn + 1 >= TURNS:
            self.sessions[place] = self.sessions[-1]
            self.sessions.pop()
        else:
            self.sessions[place] = (key, prefix, turn + 1, tokens + dice.randrange(100, 1500))
        return key, prefix, tokens

    def arrive(self) -> None:
        self.number += 1
        key, prefix, tokens = self.session()
        arrive = c.Arrive(
            at_ms=self.at_ms,
            request_id=f"req-{self.dice.getrandbits(64):016x}",
            model=MODEL,
            prompt_bytes=tokens * 4,
            session=key if self.number % 5 else None,
            prefix=prefix,
            draw=self.dice.getrandbits(63) % c.DRAWS,
            key=f"team-{self.number % 7}",
        )
        self.send(arrive)

    def send(self, arrive: c.Arrive) -> None:
        first, events = self.do(arrive)
        if events and isinstance(events[0], e.Dispatched):
            if events[0].replica == self.out:
                self.fail(first, arrive, "refused")
                return
            lasts_ms = int(self.dice.expovariate(1 / 2000)) + 50
            heapq.heappush(self.ends, (self.at_ms + lasts_ms, first, arrive))

    def fail(self, number: int, arrive: c.Arrive, cause: Cause, status: int | None = None) -> None:
        replica = self.router.state.load.flights[number].replica
        at_ms = self.at_ms
        self.do(c.Fail(at_ms=at_ms, dispatch=number, cause=cause, blame="replica", status=status))
        if arrive.attempt < 3:
            self.send(
                attrs.evolve(
                    arrive,
                    at_ms=at_ms,
                    attempt=arrive.attempt + 1,
                    tried=(*arrive.tried, replica),
                    earlier=(*arrive.earlier, number),
                )
            )

    def end(self, number: int, arrive: c.Arrive) -> None:
        if self.dice.randrange(500) == 0:
            self.fail(number, arrive, "status", 502)
            return
        lasted_ms = self.at_ms - arrive.at_ms
        tokens = self.dice.randrange(10, 400)
        self.do(
            c.Finish(
                at_ms=self.at_ms,
                dispatch=number,
                outcome="ok",
                cause="none",
                blame="none",
                status=200,
                ttfb_ms=min(lasted_ms, self.dice.randrange(20, 400)),
                duration_ms=lasted_ms,
                bytes=tokens * 180,
                prompt_tokens=arrive.prompt_bytes // 4,
                completion_tokens=tokens,
            )
        )

    def pass_ms(self, ms: int) -> None:
        """Time passes: what is due happens in its order."""
        until = self.at_ms + ms
        while self.ends and self.ends[0][0] <= until:
            at_ms, number, arrive = heapq.heappop(self.ends)
            self._at(at_ms)
            self.end(number, arrive)
        self._at(until)

    def _at(self, at_ms: int) -> None:
        before, self.at_ms = self.at_ms, at_ms
        since = before - BEGIN_MS
        now = at_ms - BEGIN_MS
        if now // RESTART_EVERY_MS != since // RESTART_EVERY_MS:
            self.ends.clear()
            self.start()
        if now // 3000 != since // 3000:
            down = now % EJECT_EVERY_MS >= EJECT_EVERY_MS - OUT_MS
            self.out = REPLICAS[now // EJECT_EVERY_MS % 8] if down else ""
            self.scrape()


def _digest(number: int) -> str:
    """As ``digest_key`` writes 96 bits."""
    return urlsafe_b64encode(number.to_bytes(DIGEST_BYTES)).decode()


def write_long_log(directory: Path, events: int, seed: int = 1) -> int:
    """At least so many events into a new log; how many. A million takes about 90 s of CPU."""
    limits = SegmentLimits(SEGMENT_BYTES)
    with closing(SqliteStore.open(directory, sync="normal", limits=limits, views=VIEWS)) as store:
        log = StoreLog(store)
        course = Course(log, random.Random(seed), Router(State(), log))
        course.start()
        while log.version < events:
            course.pass_ms(round(course.dice.expovariate(RATE_PER_S / 1000)))
            course.arrive()
        log.flush()
        return log.version


if __name__ == "__main__":
    made = write_long_log(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write(f"{made} events\n")
