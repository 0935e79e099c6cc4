"""``--incident`` counts most rows without making events of them, and tells the same."""

import pytest

from eventlog.record import Record
from tests.replay.logs import played, source_of
from tests.replay.rig import busy_day
from tests.replay.rig import source_of as source_of_rig
from trioroute.replay.incident import Incident, tell_incident
from trioroute.replay.incident.router import Router
from trioroute.replay.read import Source

FAULTS = ("replica=1,down=60..120", "replica=1,freeze=60..120", "replica=2,flap=30/30..300", "")


def whole(source: Source) -> Incident:
    return tell_incident(source, 1, source.last().at_ms)


@pytest.mark.parametrize("faults", FAULTS)
def test_rows_that_are_only_counted_tell_what_their_events_tell(
    faults: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(played(600, faults=faults)[0])
    counted = whole(source)
    taken: list[bool] = []
    real = Router.take_usual

    def noted(router: Router, record: Record) -> bool:
        taken.append(real(router, record))
        return taken[-1]

    monkeypatch.setattr(Router, "take_usual", noted)
    assert whole(source) == counted
    assert sum(taken) > len(taken) / 2
    monkeypatch.setattr(Router, "take_usual", lambda router, record: False)
    assert whole(source) == counted


def test_a_busy_day_is_told_alike_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = busy_day(900)
    counted = whole(source_of_rig(rig))
    monkeypatch.setattr(Router, "take_usual", lambda router, record: False)
    assert whole(source_of_rig(rig)) == counted
