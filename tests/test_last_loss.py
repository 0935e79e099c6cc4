"""Who stops a router on a full disk is told all that its log does not hold."""

from eventlog.errors import EntriesLost
from tests.test_serve_on import in_trouble, serving
from trioroute.last_loss import what_is_lost

LOST = EntriesLost("the journal", {"Dispatched": 500, "Released": 500}, "the disk is full")


def test_what_waited_in_the_buffer_is_told_by_kind() -> None:
    told = what_is_lost(LOST, None)
    assert told.startswith("1000 events at the end of this run could not be written: lost (500 ")
    assert "before them" not in told


def test_what_the_full_buffer_had_turned_away_is_told_too() -> None:
    rig = serving()
    in_trouble(rig)
    rig.finish(rig.go())
    hole = rig.router.hole
    assert hole is not None
    told = what_is_lost(LOST, hole)
    assert f"and before them {hole.events} events that the full buffer did not take (" in told
    by_kind = ", ".join(f"{count} {kind}" for kind, count in hole.kinds.items())
    assert hole.kinds == {"Dispatched": 1, "Released": 1}
    assert f"({by_kind}), for the disk is full" in told
