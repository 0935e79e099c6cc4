"""What must hold of any log and of the state it made, whatever the world did."""

from collections import Counter

import orjson

from eventlog.memory import MemoryStore
from tests.listlog import ListLog, check_sums, refold
from tests.rig import Rig
from trioroute import events as e
from trioroute.policy import RULES_VERSION
from trioroute.policy import commands as c
from trioroute.projections import State, apply
from trioroute.projections.digest import digest
from trioroute.projections.freeze import freeze, thaw
from trioroute.recovery import recover
from trioroute.replay.read import Source
from trioroute.replay.verify import verify
from trioroute.router import Router

STREAM = "router/r1"


def check_nothing_left(state: State) -> None:
    """Every request has ended: nothing runs, weighs or is counted as running."""
    assert state.load.flights == {}
    assert all((load.own, load.wlc_m) == (0, 0) for load in state.load.replicas.values())
    assert state.pins.running == {}
    assert all(pin.running == 0 for pin in state.pins.session.values())
    assert state.prompts.promises == {}


def check_ends(rig: Rig) -> None:
    """One end for each dispatch."""
    started = [n for n, entry in enumerate(rig.log.entries, 1) if entry.kind == "Dispatched"]
    ended = [event.dispatch for event in rig.logged(e.Released) + rig.logged(e.Failed)]
    ended += [number for event in rig.logged(e.Orphaned) for number in event.dispatches]
    assert sorted(ended) == started


def check_totals(rig: Rig) -> None:
    """What is counted is what the log has, row by row; nothing is negative."""
    tally = rig.state.tally
    released, failed = rig.logged(e.Released), rig.logged(e.Failed)
    orphans = sum(len(event.dispatches) for event in rig.logged(e.Orphaned))
    outcomes = Counter(event.outcome for event in released)
    outcomes += Counter({"unknown": orphans, "refused": len(rig.logged(e.Refused))})
    assert _by(tally.requests, 1) == outcomes
    assert tally.dispatches == Counter((d.replica, d.reason) for d in rig.logged(e.Dispatched))
    retried = Counter((event.cause,) for event in failed if event.blame != "router")
    assert tally.retries == retried
    assert tally.spills == Counter((event.kind,) for event in rig.logged(e.Spilled))
    assert tally.rebinds == Counter((event.cause,) for event in rig.logged(e.Rebound))
    assert tally.ejections == Counter((x.replica, x.cause) for x in rig.logged(e.Ejected))
    prompt = sum(event.prompt_tokens or 0 for event in released)
    assert _by(tally.tokens, 1)["prompt"] == prompt
    assert sum(sum(each.counts) for each in tally.duration.values()) == len(released)
    counters = (tally.requests, tally.tokens, tally.scrapes, tally.dispatches)
    assert min((count for one in counters for count in one.values()), default=0) >= 0


def _by(counter: dict[tuple[str, ...], int], label: int) -> Counter[str]:
    summed: Counter[str] = Counter()
    for labels, count in counter.items():
        summed[labels[label]] += count
    return summed


def check_recoveries(rig: Rig, draw: int) -> None:
    """The whole fold, a snapshot and its tail, and any durable prefix lead to the same place."""
    entries = rig.log.entries
    cut = draw % (len(entries) + 1)
    snapshot = refold(entries[:cut])
    before = repr(snapshot)
    state = thaw(orjson.loads(orjson.dumps(freeze(snapshot))))
    for at, entry in enumerate(entries[cut:], cut + 1):
        apply(state, at, entry.at_ms, e.decode(entry.kind, entry.schema, entry.body))
    assert repr(state) == repr(rig.state)
    assert digest(state) == digest(rig.state)
    assert repr(snapshot) == before, "the tail reached into the snapshot"
    _check_prefix(rig, rig.log.offers[draw % len(rig.log.offers)])


def _check_prefix(rig: Rig, cut: int) -> None:
    """A router that finds only the first ``cut`` rows starts with nothing in flight."""
    log = ListLog(list(rig.log.entries[:cut]))
    router = Router(refold(log.entries), log)
    in_flight = set(router.state.load.flights)
    router.handle(c.Start(at_ms=rig.at_ms, router="r1", release="0", rules=RULES_VERSION))
    check_sums(router.state)
    assert router.state.load.flights == {}
    last = e.decode(log.entries[-1].kind, log.entries[-1].schema, log.entries[-1].body)
    assert (set(last.dispatches) if isinstance(last, e.Orphaned) else set()) == in_flight
    assert digest(refold(log.entries)) == digest(router.state)


def check_stored(rig: Rig) -> None:
    """In a store the same log recovers to the same state, and is verified."""
    store = MemoryStore()
    store.append(STREAM, rig.log.entries, 0)
    assert digest(recover(store, STREAM).state) == digest(rig.state)
    assert verify(Source(store)).difference is None


def check_all(rig: Rig, draw: int) -> None:
    """All of it, at the end of a course in which everything ended."""
    check_nothing_left(rig.state)
    check_ends(rig)
    check_totals(rig)
    check_recoveries(rig, draw)
    check_stored(rig)
    rig.verify()
