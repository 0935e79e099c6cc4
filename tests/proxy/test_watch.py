"""Limits in time, looked at with a clock that is set by hand."""

from typing import Any

import attrs
import pytest
import trio

from tests.rig import settings
from trioroute.clock import HELD_UP_MS
from trioroute.events import InForce
from trioroute.proxy.watch import (
    LOG_FROM_MS,
    LOOK_EVERY_MAX_MS,
    LOOK_EVERY_MIN_MS,
    TELL_EVERY_MS,
    Limit,
    Watch,
    Watched,
)

LIMITS = {
    "first_byte_ms": 1000,
    "idle_ms": 500,
    "client_stall_ms": 300,
    "total_ms": 5000,
    "connect_ms": 0,
}


@attrs.define
class Hand:
    """A watch whose time and whose settings are set by the test."""

    at_ms: int = 1_000_000
    in_force: InForce = attrs.field(
        factory=lambda: settings(timeouts=LIMITS, eject={"stream_grace_ms": 200})
    )
    refusing: set[str] = attrs.field(factory=set)
    watch: Watch = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.watch = Watch(
            lambda: self.at_ms, lambda: self.in_force, lambda name: name in self.refusing
        )

    def open(self, replica: str = "a", **fields: Any) -> Watched:
        watched = self.watch.open(replica, trio.CancelScope())
        for name, value in fields.items():
            setattr(watched, name, value)
        return watched

    def look(self, later_ms: int = 0) -> None:
        self.at_ms += later_ms
        self.watch.look()


def broken(watched: Watched) -> Limit | None:
    return watched.broken


@pytest.mark.parametrize(
    ("phase", "limit_ms", "name"),
    [
        ("first_byte", 1000, "first_byte"),
        ("idle", 500, "idle"),
        ("client_stall", 300, "client_stall"),
    ],
)
async def test_each_phase_has_its_limit(phase: str, limit_ms: int, name: str) -> None:
    hand = Hand()
    watched = hand.open(phase=phase)
    hand.look(limit_ms - 1)
    assert broken(watched) is None
    assert not watched.scope.cancel_called
    hand.look(1)
    assert broken(watched) == name
    assert watched.scope.cancel_called


def test_progress_starts_the_limit_anew() -> None:
    hand = Hand()
    watched = hand.open(phase="idle")
    for _ in range(9):
        hand.look(499)
        watched.since_ms = hand.at_ms
    assert broken(watched) is None


@pytest.mark.parametrize("phase", ["first_byte", "idle", "client_stall", "log"])
def test_the_total_limit_is_in_every_phase(phase: str) -> None:
    hand = Hand()
    watched = hand.open(phase=phase)
    for _ in range(25):
        hand.look(199)
        watched.since_ms = hand.at_ms
        assert broken(watched) is None
    hand.look(199)
    assert broken(watched) == "total"


def test_the_wait_for_the_log_has_none_of_the_others() -> None:
    hand = Hand()
    hand.refusing.add("a")
    hand.in_force = settings(
        timeouts=LIMITS, eject={"stream_grace_ms": 200}, log={"gate_wait_ms": 4000}
    )
    watched = hand.open(phase="log")
    hand.look(3999)
    assert broken(watched) is None
    hand.look(1)
    assert broken(watched) == "log"


@pytest.mark.parametrize("phase", ["first_byte", "idle", "client_stall"])
def test_zero_is_no_limit(phase: str) -> None:
    none = dict.fromkeys(LIMITS, 0)
    hand = Hand(in_force=settings(timeouts=none, eject={"stream_grace_ms": 0}))
    hand.refusing.add("a")
    watched = hand.open(phase=phase)
    hand.look(10**9)
    assert broken(watched) is None


@pytest.mark.parametrize("phase", ["first_byte", "idle"])
def test_the_grace_counts_from_when_the_refusal_is_noticed(phase: str) -> None:
    hand = Hand()
    watched, other = hand.open(phase=phase), hand.open("b", phase=phase)
    hand.look(250)
    hand.refusing.add("a")
    hand.look()
    hand.look(199)
    assert broken(watched) is None
    hand.look(1)
    assert broken(watched) == "stream_grace"
    assert broken(other) is None


def test_a_byte_within_the_grace_starts_it_anew_and_a_return_ends_it() -> None:
    hand = Hand()
    watched = hand.open(phase="idle")
    hand.refusing.add("a")
    hand.look()
    hand.look(150)
    watched.since_ms = hand.at_ms
    hand.look(150)
    assert broken(watched) is None
    hand.refusing.clear()
    hand.look(100)
    hand.refusing.add("a")
    watched.since_ms = hand.at_ms
    hand.look(100)
    hand.look(199)
    assert broken(watched) is None
    hand.look(1)
    assert broken(watched) == "stream_grace"


def test_a_slow_client_is_not_the_refusing_replicas_doing() -> None:
    hand = Hand()
    hand.refusing.add("a")
    watched = hand.open(phase="client_stall")
    hand.look()
    hand.look(299)
    assert broken(watched) is None


async def test_a_broken_one_is_cancelled_once_and_a_closed_one_never() -> None:
    hand = Hand()
    watched, closed = hand.open(phase="idle"), hand.open(phase="idle")
    assert len(hand.watch) == 2
    hand.watch.close(closed)
    hand.watch.close(closed)
    hand.look(500)
    watched.phase = "client_stall"
    hand.look(5000)
    assert broken(watched) == "idle"
    assert not closed.scope.cancel_called
    assert len(hand.watch) == 1


@pytest.mark.parametrize(
    ("idle_ms", "every_ms"),
    [(1, LOOK_EVERY_MIN_MS), (1000, 100), (600_000, LOOK_EVERY_MAX_MS)],
)
def test_it_looks_often_enough_for_the_shortest_limit(idle_ms: int, every_ms: int) -> None:
    none = dict.fromkeys(LIMITS, 0)
    hand = Hand(
        in_force=settings(
            timeouts={**none, "idle_ms": idle_ms},
            eject={"stream_grace_ms": 0},
            log={"gate_wait_ms": 700_000},
        )
    )
    assert hand.watch._look_every_ms() == every_ms


@pytest.mark.parametrize(("late_ms", "limit"), [(HELD_UP_MS, None), (HELD_UP_MS - 1, "first_byte")])
def test_what_the_router_was_held_up_runs_no_limit(late_ms: int, limit: Limit | None) -> None:
    hand = Hand()
    watched = hand.open()
    hand.look(900)
    hand.at_ms += late_ms
    hand.watch.forgive(late_ms)
    hand.look(99)
    assert broken(watched) == limit
    hand.look(1)
    assert broken(watched) == "first_byte"


def test_a_standstill_is_told_once_a_minute_with_how_often_it_was() -> None:
    hand, told = Hand(), list[str]()
    hand.watch.tell = told.append
    hand.open()
    hand.watch.forgive(HELD_UP_MS - 1)
    assert told == []
    hand.watch.forgive(7064)
    assert len(told) == 1
    assert told[0] == (
        "the router itself stood still for 7.1 s (stopped, paused or swapped out, or too little "
        "CPU): no limit of time ran meanwhile; 1 request under way"
    )
    for _ in range(3):
        hand.watch.forgive(600)
    assert len(told) == 1
    hand.at_ms += TELL_EVERY_MS
    hand.watch.forgive(800)
    assert "still for 0.8 s, and 3 times before, since it was last told (" in told[1]
    hand.at_ms += TELL_EVERY_MS
    hand.watch.forgive(900)
    assert "still for 0.9 s (" in told[2]


def test_a_request_that_came_behind_the_standstill_gains_nothing() -> None:
    hand = Hand()
    watched = hand.open()
    hand.watch.forgive(5000)
    hand.look(1000)
    assert broken(watched) == "first_byte"


async def test_it_runs() -> None:
    hand = Hand(in_force=settings(timeouts={**LIMITS, "idle_ms": 100}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hand.watch.run)
        with trio.fail_after(5), trio.CancelScope() as scope:
            watched = hand.watch.open("a", scope)
            watched.phase = "idle"
            hand.at_ms += 100
            await trio.sleep_forever()
        assert broken(watched) == "idle"
        nursery.cancel_scope.cancel()


def test_the_log_is_told_each_time_that_the_router_stood_still_for_a_second() -> None:
    """A shorter one is for the process log alone."""
    hand, stood = Hand(), list[int]()
    hand.watch.stood = stood.append
    for late_ms in (HELD_UP_MS, LOG_FROM_MS - 1, LOG_FROM_MS, 5100):
        hand.watch.forgive(late_ms)
    assert stood == [LOG_FROM_MS, 5100]
