"""Logs as a simulated fleet writes them, and what a naive reader makes of their raw rows."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import orjson

from eventlog.record import Entry
from tests.listlog import ListLog
from tests.replay.rig import store_of
from trioroute.events import InForce
from trioroute.replay.read import Source
from trioroute.settings import with_changes
from trioroute.simulate.faults import parse_fault
from trioroute.simulate.measures import Measures
from trioroute.simulate.profiles import PROFILES
from trioroute.simulate.script import cut
from trioroute.simulate.workloads import workload_of
from trioroute.simulate.world import Setting, World


@cache
def played(
    requests: int = 400,
    policy: str = "soft-sticky",
    slack: int = 1,
    faults: str = "",
    seed: int = 1,
) -> tuple[tuple[Entry, ...], Measures]:
    """Sixteen agents on four a100: the log of the run, and what its clients felt."""
    changes: dict[str, object] = {"policy.name": policy, "policy.slack.session": slack}
    setting = Setting(
        workload=cut(workload_of("agents:16", seed), requests),
        engine=PROFILES["a100"],
        in_force=with_changes(InForce(), changes, place="test"),
        faults=parse_fault(faults, 4) if faults else (),
    )
    log = ListLog()
    world = World(setting, log)
    world.run()
    world.close()
    return tuple(log.entries), world.measures


def source_of(entries: Sequence[Entry]) -> Source:
    return Source(store_of(list(entries)))


class Naive:
    """RULES 3 to 5 once more, from raw rows and for this traffic only: one model, no trouble.

    Knows session pins, what each replica runs (RULES 3, counted), and nothing else.
    """

    def __init__(self) -> None:
        self.pins: dict[str, str] = {}
        self.own: dict[str, int] = {}
        self.read: dict[str, dict[str, Any]] = {}
        self.flights: dict[int, str] = {}

    def running(self, name: str) -> tuple[int, int]:
        """What runs and what waits there."""
        own, read = self.own.get(name, 0), self.read[name]
        foreign = max(0, read["running"] + read["waiting"] - read["own"])
        present = foreign + own
        waiting = max(0, present - read["running"]) if read["waiting"] else 0
        return present - waiting, waiting

    def pin_usable(self, session: str, slack: int) -> bool | None:
        """Whether the session's pin may be used; None if it has none."""
        home = self.pins.get(session)
        if home is None:
            return None
        loads = {name: self.running(name) for name in self.read}
        calm = [run for run, wait in loads.values() if not wait] or [r for r, _ in loads.values()]
        running, waiting = loads[home]
        return not waiting and running <= min(calm) + slack

    def take(self, number: int, kind: str, body: dict[str, Any]) -> None:
        if kind == "Scraped":
            self.read.update(body["readings"])
        elif kind == "Dispatched":
            self.flights[number] = body["replica"]
            self.own[body["replica"]] = self.own.get(body["replica"], 0) + 1
        elif kind == "Released":
            self.own[self.flights.pop(body["dispatch"])] -= 1
        elif kind in ("Bound", "Rebound") and body["kind"] == "session":
            self.pins[body["key"]] = body["replica"]
        elif kind == "Unbound" and body["kind"] == "session":
            del self.pins[body["key"]]


def naive_differences(entries: Sequence[Entry], slack: int) -> list[int]:
    """Decisions that would use a session pin they did not use, or leave one they used."""
    naive, found = Naive(), []
    for number, entry in enumerate(entries, 1):
        body = orjson.loads(entry.body)
        if entry.kind == "Dispatched" and body["session"] is not None:
            usable = naive.pin_usable(body["session"], slack)
            if usable is not None and usable != (body["reason"] == "affinity:session"):
                found.append(number)
        naive.take(number, entry.kind, body)
    return found
