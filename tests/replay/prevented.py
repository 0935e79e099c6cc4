"""What ``--incident`` says would have prevented a row, found and compared."""

from collections.abc import Callable

from eventlog.record import Entry
from tests.replay.rig import source_of as source_of_rig
from tests.rig import Rig
from trioroute import events as e
from trioroute.replay.incident import Incident, tell_incident
from trioroute.replay.incident.lines import PREVENTION, blocks_of
from trioroute.replay.incident.told import Prevention
from trioroute.settings import with_changes

Script = Callable[[Rig], None]


def told_of(rig: Rig) -> Incident:
    source = source_of_rig(rig)
    return tell_incident(source, 1, source.last().at_ms)


def play(script: Script, **changes: object) -> Rig:
    keys = {key.replace("__", "."): value for key, value in changes.items()}
    rig = Rig(with_changes(e.InForce(), keys))
    script(rig)
    return rig


def row(rig: Rig, place: str) -> Entry:
    return rig.log.entries[int(place.rpartition("/")[2]) - 1]


def found(told: Incident, setting: str) -> Prevention:
    (one,) = [item for item in told.prevention if item.setting == setting]
    assert one.text in told.hints
    assert one.text in said(told)
    return one


def said(told: Incident) -> tuple[str, ...]:
    return next((block.said for block in blocks_of(told) if block.title == PREVENTION), ())
