"""What ``--incident`` says of the line of those who found only full replicas: played again under
the setting that it names, the request that was refused is served."""

from functools import cache

import orjson
import pytest

from eventlog.record import Entry
from tests.listlog import ListLog
from tests.replay.logs import source_of
from tests.replay.prevented import found, said
from trioroute.events import InForce
from trioroute.replay.incident import Incident, tell_incident
from trioroute.settings import with_changes
from trioroute.simulate.profiles import PROFILES
from trioroute.simulate.script import cut
from trioroute.simulate.workloads import workload_of
from trioroute.simulate.world import Setting, World

NOT_KNOWN = "is not in the log, which tells neither how long it had waited nor how many did"


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
    ("waiting", "wait", "setting", "text"),
    [
        (0, "60s", "admission.max_waiting", "admission.max_waiting=0 lets nobody wait"),
        (9, "0s", "admission.max_wait", "admission.max_wait=0s lets nobody wait"),
        (1, "60s", "admission.max_waiting", "all places in the line were taken"),
    ],
)
def test_the_request_is_served_under_the_setting_that_is_named(
    waiting: int, wait: str, setting: str, text: str
) -> None:
    entries = played(waiting, wait, 6)
    one = found(told_of(entries), setting)
    assert text in one.text
    row = entries[int(one.row.rpartition("/")[2]) - 1]
    name = orjson.loads(row.body)["request_id"]
    assert name == refused(entries)[0]
    more = int(one.instead or "") if setting == "admission.max_waiting" else waiting
    longer = one.instead or "" if setting == "admission.max_wait" else wait
    assert name not in refused(played(more, longer, 6))


def test_who_may_have_waited_too_long_is_said_to_be_not_known() -> None:
    entries = played(512, "1s", 12)
    told = told_of(entries)
    assert refused(entries)
    assert not [
        one for one in told.prevention if (one.setting or "").startswith("admission.max_wai")
    ]
    assert any(text.startswith("whether r1/") and NOT_KNOWN in text for text in said(told))
