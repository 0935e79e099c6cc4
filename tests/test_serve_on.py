"""``log.on_failure = "serve"``: responses go out while the log cannot be written, and the log says
afterwards what it does not tell; replay goes on after it."""

from typing import Any

import pytest

from eventlog import MemoryStore
from tests.replay.rig import STREAM
from tests.rig import Rig, settings
from trioroute import events as e
from trioroute.policy import commands as c
from trioroute.projections.digest import digest
from trioroute.recovery import recover
from trioroute.replay.read import Source
from trioroute.replay.verify import verify
from trioroute.router import UNLOGGED


def serving(**log: Any) -> Rig:
    rig = Rig(settings(log={"on_failure": "serve", **log}))
    rig.live("a", "b", "c")
    rig.use("s1", "p1")
    return rig


def stored(rig: Rig) -> MemoryStore:
    store = MemoryStore()
    store.append(STREAM, rig.log.entries, 0)
    return store


def in_trouble(rig: Rig) -> None:
    """The log takes nothing any more, not even what must be taken."""
    rig.log.full = True
    rig.log.broken = True
    rig.router.log_healthy = lambda: False


def mended(rig: Rig) -> None:
    rig.log.full = rig.log.broken = False
    rig.router.log_healthy = lambda: True


def test_a_full_log_stops_nothing_and_one_gap_restates_the_state() -> None:
    rig = serving()
    running = rig.go("s2")
    rows = len(rig.log.entries)
    in_trouble(rig)
    rig.pass_s(1)
    first_lost_ms = rig.at_ms
    lost = [rig.go("s3"), rig.go("s4"), rig.go()]
    rig.finish(running)
    rig.finish(lost[0])
    rig.eject("c")
    assert len(rig.log.entries) == rows
    assert all(flown.number > UNLOGGED for flown in lost)
    assert len({flown.number for flown in lost}) == 3
    rig.pass_s(9)
    mended(rig)
    rig.tick()
    gap = e.decode("Gap", 1, rig.log.entries[rows].body)
    assert isinstance(gap, e.Gap)
    assert gap.lost >= 6
    assert (gap.from_ms, gap.to_ms) == (first_lost_ms, rig.at_ms)
    after = rig.go("s3")
    assert after.number == len(rig.log.entries) - len(after.pins)
    rig.finish(lost[1])
    rig.finish(after)
    rig.tick()
    assert rig.router.hole is None
    found = recover(stored(rig), STREAM).state
    assert found == rig.state
    assert digest(found) == digest(rig.state)


def test_what_follows_the_gap_is_verified_decision_by_decision() -> None:
    rig = serving()
    in_trouble(rig)
    lost = [rig.go(f"s{n}", "p1") for n in range(5)]
    mended(rig)
    rig.tick()
    for n in range(20):
        rig.finish(rig.go(f"s{n % 7}", "p1"))
    for flown in lost:
        rig.finish(flown)
    rig.pass_s(70)
    rig.tick()
    proved = verify(Source(stored(rig)))
    assert proved.difference is None
    assert (proved.gaps, proved.in_flight) == (1, 0)
    assert proved.decisions == 21
    assert proved.digests >= 1


def test_a_restart_after_a_gap_orphans_what_was_lost_and_ran() -> None:
    rig = serving()
    in_trouble(rig)
    lost = rig.go("s9")
    mended(rig)
    rig.tick()
    rig.restart()
    (orphaned,) = rig.logged(e.Orphaned)
    assert orphaned.dispatches == (lost.number,)
    assert verify(Source(stored(rig))).difference is None


def test_numbers_of_a_second_hole_are_new_ones() -> None:
    rig = serving()
    numbers = []
    for _ in range(2):
        in_trouble(rig)
        numbers += [rig.go().number, rig.go().number]
        mended(rig)
        rig.tick()
    assert len(set(numbers)) == 4
    assert len(rig.logged(e.Gap)) == 2


def test_responses_that_went_out_first_are_told_although_nothing_is_lost() -> None:
    rig = serving()
    rows = len(rig.log.entries)
    rig.router.log_healthy = lambda: False
    rig.router.response_unlogged(rig.at_ms)
    rig.router.response_unlogged(rig.at_ms)
    flown = rig.go()
    assert flown.number == rows + 1
    mended(rig)
    rig.router.close_hole(rig.at_ms)
    (gap,) = rig.logged(e.Gap)
    assert (gap.lost, gap.unlogged, gap.state) == (0, 2, None)
    assert verify(Source(stored(rig))).difference is None


def test_refuse_takes_nothing_when_the_log_is_full() -> None:
    from eventlog import JournalFull

    rig = Rig()
    rig.live("a")
    rig.log.full = True
    before = rig.state.position
    with pytest.raises(JournalFull):
        rig.handle(c.Arrive(at_ms=rig.at_ms, request_id="q", model="m", prompt_bytes=1))
    assert rig.state.position == before
    assert rig.router.hole is None
