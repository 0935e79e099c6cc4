"""What ``--incident`` says of the line of those who found only full replicas: played again under
the setting that it names, the request that was refused is served."""

from functools import cache

import orjson
import pytest

from eventlog.record import Entry
from tests.listlog import ListLog
from tests.replay.logs import source_of
from tests.replay.prevented import found
from trioroute.events import InForce
from trioroute.replay.incident import Incident, tell_incident
from trioroute.settings import with_changes
from trioroute.simulate.profiles import PROFILES
from trioroute.simulate.script import cut
from trioroute.simulate.workloads import workload_of
from trioroute.simulate.world import Setting, World


@cache
def played(waiting: int, wait: str, agents: int) -> tuple[Entry, ...]:
    """Agents on one replica that takes three requests at once."""
    changes: dict[str, object] = {
        "admission.max_in_flight": 3,
        "admission.max_waiting": waiting,
        "admission.max_wait": wait,
    }
    setting = Setting(
        workload=cut(workload_of(f"agents:{agents}", 3), 120),
        engine=PROFILES["a100"],
        replicas=1,
        in_force=with_changes(InForce(), changes, place="test"),
    )
    log = ListLog()
    world = World(setting, log)
    world.run()
    world.close()
    return tuple(log.entries)


def told_of(entries: tuple[Entry, ...]) -> Incident:
    source = source_of(entries)
    return tell_incident(source, 1, source.last().at_ms)


def refused(entries: tuple[Entry, ...]) -> list[str]:
    rows = [orjson.loads(entry.body) for entry in entries if entry.kind == "Refused"]
    return [row["request_id"] for row in rows if row["code"] == "overloaded"]


@pytest.mark.parametrize(
    ("waiting", "wait", "agents", "setting", "text"),
    [
        (0, "60s", 6, "admission.max_waiting", "admission.max_waiting=0 lets nobody wait"),
        (9, "0s", 6, "admission.max_wait", "admission.max_wait=0s lets nobody wait"),
        (1, "60s", 6, "admission.max_waiting", "all places in the line were taken"),
        (512, "1s", 12, "admission.max_wait", "refused after 1 s in line, its admission.max_wait"),
    ],
)
def test_the_request_is_served_under_the_setting_that_is_named(
    waiting: int, wait: str, agents: int, setting: str, text: str
) -> None:
    entries = played(waiting, wait, agents)
    one = found(told_of(entries), setting)
    assert text in one.text
    row = entries[int(one.row.rpartition("/")[2]) - 1]
    name = orjson.loads(row.body)["request_id"]
    assert name == refused(entries)[0]
    more = int(one.instead or "") if setting == "admission.max_waiting" else waiting
    longer = one.instead or "" if setting == "admission.max_wait" else wait
    assert name not in refused(played(more, longer, agents))
