"""One recorded row per kind and schema, kept for good: what old logs hold stays readable."""

from pathlib import Path

import pytest

from tests.events.samples import OLDER, SAMPLES
from trioroute import events as e
from trioroute.events.codec import KINDS

GOLDEN = Path(__file__).parent.parent / "golden" / "events"


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_a_kind_is_written_as_its_golden_row(event: e.Event) -> None:
    kind = e.kind_of(event)
    row = (GOLDEN / f"{kind.name}.{kind.schema}.json").read_bytes().removesuffix(b"\n")
    assert e.encode(event) == row


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_a_golden_row_is_read_as_its_event(event: e.Event) -> None:
    kind = e.kind_of(event)
    for schema in range(1, kind.schema + 1):
        row = (GOLDEN / f"{kind.name}.{schema}.json").read_bytes()
        assert e.decode(kind.name, schema, row) == OLDER.get((kind.name, schema), event)


def test_every_kind_and_schema_has_a_golden_row_and_no_row_is_left_over() -> None:
    expected = {
        f"{kind.name}.{schema}.json"
        for kind in KINDS.values()
        for schema in range(1, kind.schema + 1)
    }
    assert {path.name for path in GOLDEN.glob("*.json")} == expected
    assert [type(sample).__name__ for sample in SAMPLES] == list(KINDS)


def test_the_kinds_are_those_of_the_interface() -> None:
    named = (
        "Started Configured Orphaned Stopped Checked StoodStill Gap ReplicaJoined ReplicaLeft "
        "Draining Scraped ScrapeFailed Dispatched Failed Released Refused Bound Spilled Rebound "
        "Unbound Ejected Probing Live"
    )
    assert sorted(KINDS) == sorted(named.split())
