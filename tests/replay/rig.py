"""Logs for replay: what ``tests.rig`` drives, put into a store, whole or falsified."""

import random
from collections.abc import Sequence
from pathlib import Path

import attrs
import orjson

from eventlog.memory import MemoryStore
from eventlog.record import Entry
from eventlog.sqlite import SqliteStore
from eventlog.store import Store
from tests.rig import Flown, Rig
from trioroute.events.views import VIEWS
from trioroute.policy.commands import DRAWS
from trioroute.replay.read import Source

STREAM = "router/r1"


def store_of(entries: Sequence[Entry], store: Store | None = None) -> Store:
    made: Store = store if store is not None else MemoryStore()
    made.append(STREAM, entries, made.stream_version(STREAM))
    return made


def written_log(directory: Path, rig: Rig) -> Path:
    """A log directory on disk, as a router leaves it."""
    store = SqliteStore.open(directory, sync="normal", views=VIEWS)
    store_of(rig.log.entries, store)
    store.close()
    return directory


def source_of(rig: Rig) -> Source:
    return Source(store_of(rig.log.entries))


def changed(entries: Sequence[Entry], version: int, **fields: object) -> list[Entry]:
    """The same log as if row ``version`` had been written with other fields in its body."""
    at = version - 1
    body = {**orjson.loads(entries[at].body), **fields}
    entry = attrs.evolve(entries[at], body=orjson.dumps(body))
    return [*entries[:at], entry, *entries[at + 1 :]]


def busy_day(decisions: int, seed: int = 1) -> Rig:
    """Agent sessions that share a prefix, a failed attempt now and then, an eject, a restart."""
    dice = random.Random(seed)
    rig = Rig().live("a", "b", "c")
    flying: list[Flown] = []
    for number in range(decisions):
        rig.pass_s(dice.randrange(1, 600) / 1000)
        if number % 20 == 0:
            queue = 2 if number % 40 == 0 else 0
            rig.scrape(a=(1, 0), b=(1, queue), c=(1, 0))
        if number % 100 == 50:
            rig.eject("c")
        if number % 50 == 49:
            rig.tick()
        if number == decisions // 2:
            rig.restart()
            flying.clear()
        session = f"s{dice.randrange(12)}" if number % 5 else None
        tokens, draw = dice.randrange(25, 10_000), dice.getrandbits(63) % DRAWS
        flown = rig.arrive(session, "p", tokens=tokens, draw=draw)
        if not isinstance(flown, Flown):
            continue
        if number % 31 == 30:
            rig.fail(flown, status=502)
            again = rig.retry(flown)
            flying += [again] if isinstance(again, Flown) else []
        else:
            flying.append(flown)
        while len(flying) > 8:
            rig.finish(flying.pop(dice.randrange(len(flying))))
    return rig
