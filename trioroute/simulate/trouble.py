"""Faults put into a run: what begins and what ends at each of their spans."""

from collections.abc import Callable, Sequence
from functools import partial

from trioroute.policy.commands import Drain
from trioroute.router import Router
from trioroute.simulate.clock import MS_NS, Clock
from trioroute.simulate.faults import FOREVER_MS, Fault
from trioroute.simulate.fleet import SimReplica
from trioroute.simulate.steps import SPEED_M
from trioroute.simulate.steps import Sequence as OnEngine
from trioroute.simulate.traffic import Traffic

Switch = tuple[Callable[[], None], Callable[[], None]]


def arrange(
    fault: Fault, replica: SimReplica, clock: Clock, router: Router, traffic: Traffic
) -> None:
    """Let ``fault`` happen to ``replica`` at its times."""
    begin, end = _switch(fault, replica, clock, router, traffic)
    for begin_ms, end_ms in fault.spans:
        clock.at(begin_ms * MS_NS, begin)
        if end_ms < FOREVER_MS:
            clock.at(end_ms * MS_NS, end)


def _switch(
    fault: Fault, replica: SimReplica, clock: Clock, router: Router, traffic: Traffic
) -> Switch:
    if fault.kind == "down":
        return replica.fall, replica.rise
    if fault.kind == "slow":
        return partial(replica.slow_down, fault.slow_m), partial(replica.slow_down, SPEED_M)
    if fault.kind == "freeze":
        return _freezing(replica, clock, router, traffic)

    def drain(on: bool) -> None:
        router.handle(Drain(at_ms=clock.at_ms, replica=replica.name, on=on))

    return partial(drain, True), partial(drain, False)


def _freezing(replica: SimReplica, clock: Clock, router: Router, traffic: Traffic) -> Switch:
    """While it stands still, its streams run into the idle limit."""

    def begin() -> None:
        there = replica.freeze()
        idle_ms = router.state.settings.timeouts.idle_ms
        if idle_ms:
            clock.after(idle_ms, partial(over, there, clock.now_ns))

    def over(there: Sequence[OnEngine], since_ns: int) -> None:
        if replica.engine.frozen_ns == since_ns:
            for sequence in there:
                traffic.idle_limit(sequence)

    return begin, replica.thaw
