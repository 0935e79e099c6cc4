"""What replay explains is what a naive reader derives from the raw rows."""

import random
from collections import Counter
from functools import cache

import attrs

from eventlog.record import Entry
from tests.listlog import ListLog
from tests.replay.as_naive import compared, explained, numbers_of
from tests.replay.logs import source_of
from tests.replay.naive import Naive, Verdict
from tests.replay.rig import STREAM, busy_day
from trioroute.events import InForce
from trioroute.replay.explain import tell_all
from trioroute.simulate.faults import parse_fault
from trioroute.simulate.profiles import PROFILES
from trioroute.simulate.script import cut
from trioroute.simulate.workloads import workload_of
from trioroute.simulate.world import Setting, World

FAULTS = (
    "replica=1,flap=20/40..400,replica=2,slow=5@100..200,replica=3,freeze=150..300,"
    "replica=4,drain=200..260,replica=1,down=420..470,replica=2,down=420..470,"
    "replica=3,down=420..470,replica=4,down=420..470"
)
DECISIONS = 1000


@cache
def soak() -> tuple[Entry, ...]:
    """Agents on four replicas that flap, slow down, freeze, drain and die all at once."""
    setting = Setting(
        workload=cut(workload_of("agents:40", 1), 2400),
        engine=PROFILES["a100"],
        in_force=InForce(),
        faults=parse_fault(FAULTS, 4),
    )
    log = ListLog()
    world = World(setting, log)
    world.run()
    world.close()
    return tuple(log.entries)


def test_a_soak_under_faults_is_explained_as_its_raw_rows_say() -> None:
    states: Counter[str] = Counter()
    found = compared(source_of(soak()), DECISIONS)
    assert len(found) == DECISIONS
    for told in found:
        states.update(one.state for one in told.replicas)
        states.update(flag for one in told.replicas for flag in one.flags)
        states[told.reason] += 1
        states["unusable pin"] += told.pin is not None and not told.pin.usable
    expected = {"LIVE", "EJECTED", "PROBING", "DRAINING", "queue", "stalled", "unusable pin"}
    expected |= {"load", "affinity:session", "affinity:prefix", "fallback"}
    assert not {name for name in expected if not states[name]}, states


def test_retries_and_a_restart_are_explained_as_their_raw_rows_say() -> None:
    told = compared(source_of(busy_day(300).log.entries), DECISIONS)
    assert len(told) > 300
    assert any(one.request.tried for one in told)


def test_the_comparison_sees_every_part() -> None:
    """Against a naive reader that misses rows, each part of a verdict is found to differ."""
    entries = soak()
    numbers = random.Random(2).sample(numbers_of(entries), 150)
    naive = Naive(entries)
    naive.kinds["Scraped"] = naive.kinds["Scraped"][::3]
    naive.kinds["Rebound"] = []
    naive.kinds["Draining"] = []
    differ: set[str] = set()
    for one in tell_all(source_of(entries), STREAM, numbers):
        if one.reason != "fallback":
            true, blind = explained(one), naive.decide(one.number)
            differ |= {
                field.name
                for field in attrs.fields(Verdict)
                if getattr(true, field.name) != getattr(blind, field.name)
            }
    assert differ == {field.name for field in attrs.fields(Verdict)}
