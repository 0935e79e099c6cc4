"""The fold is total, and the digest sees whatever decides the future."""

from collections.abc import Callable

import pytest

from tests.events.samples import SAMPLES
from tests.listlog import refold
from tests.rig import Rig
from tests.scenario import play
from trioroute import events as e
from trioroute.projections import State, apply
from trioroute.projections.digest import digest


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_any_event_folds_onto_an_empty_state(event: e.Event) -> None:
    state = State()
    apply(state, 7, 1000, event)
    assert (state.position, state.at_ms) == (7, 1000)


def test_events_fold_in_any_order(rig: Rig) -> None:
    for event in (*SAMPLES, *reversed(SAMPLES)):
        state = play(3, 60).state
        apply(state, state.position + 1, state.at_ms, event)
        assert digest(state) >= 0


def both(change: Callable[[Rig], object]) -> tuple[Rig, Rig]:
    rigs = []
    for _ in range(2):
        rig = Rig()
        rig.live("a", "b")
        rig.use("s", "p")
        rigs.append(rig)
    change(rigs[1])
    return rigs[0], rigs[1]


CHANGES: dict[str, Callable[[Rig], object]] = {
    "a request in flight": lambda rig: rig.go(),
    "whose turn it is": lambda rig: rig.use(),
    "a pin": lambda rig: rig.use("s2"),
    "a response": lambda rig: rig.finish(rig.go(), response="r"),
    "a reading": lambda rig: rig.scrape(a=(3, 1)),
    "a token counter": lambda rig: rig.scrape(a=rig.reading("a", 0, tokens=5)),
    "a failed scrape": lambda rig: rig.fail_scrape("a", "timeout"),
    "an eject": lambda rig: rig.eject("a"),
    "a drain": lambda rig: rig.drain("a"),
    "a member": lambda rig: rig.join("c"),
    "a departure": lambda rig: rig.leave("a"),
    "busy": lambda rig: rig.fail(rig.go(), "status", "none", 429),
    "sleep": lambda rig: rig.scrape(a=rig.reading("a", asleep=True)),
    "calibration": lambda rig: rig.finish(rig.go(), prompt_tokens=5),
}


@pytest.mark.parametrize("what", CHANGES)
def test_the_digest_sees(what: str) -> None:
    same, changed = both(CHANGES[what])
    assert digest(same.state) != digest(changed.state)


def test_the_digest_sees_a_spill_and_its_end(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s")
    unspilled = rig.state.pins.digest
    rig.scrape(a=(2, 0), b=(0, 0))
    rig.use("s")
    assert rig.state.pins.digest != unspilled
    rig.scrape(a=(0, 0), b=(0, 0))
    rig.use("s")
    assert rig.state.pins.digest == unspilled


def test_the_digest_sees_which_one_is_drained() -> None:
    sums = set()
    for name in ("a", "b"):
        rig = Rig()
        rig.live("a", "b")
        rig.drain(name)
        sums.add(digest(rig.state))
    assert len(sums) == 2


def test_a_log_folds_to_the_same_state_at_every_position() -> None:
    rig = play(11, 150)
    state = State()
    for at, entry in enumerate(rig.log.entries):
        apply(state, at + 1, entry.at_ms, e.decode(entry.kind, entry.schema, entry.body))
        if at % 100 == 0:
            assert repr(refold(rig.log.entries[: at + 1])) == repr(state)
    assert repr(state) == repr(rig.state)


def test_a_second_end_of_a_dispatch_in_a_log_changes_no_sum(rig: Rig) -> None:
    rig.live("a")
    flown, other = rig.go(), rig.go()
    rig.finish(flown)
    state = refold(rig.log.entries)
    for event in (*rig.logged(e.Released), e.Orphaned(dispatches=(flown.number, 99))):
        apply(state, state.position + 1, state.at_ms, event)
    assert state.load.of("a").own == 1
    assert list(state.load.flights) == [other.number]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_read_from_rows_gives_the_same_state(seed: int) -> None:
    rig = play(seed, 400)
    state = State()
    for version, entry in enumerate(rig.log.entries, 1):
        event = e.decode(entry.kind, entry.schema, entry.body)
        apply(state, version, entry.at_ms, event)
    assert repr(state) == repr(rig.state)
