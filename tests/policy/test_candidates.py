"""What was seen of a replica is kept until it changes, and never a millisecond longer."""

import random
from collections.abc import Iterator

import attrs
import pytest

from tests.rig import MODEL, MakeRig, Rig, settings
from tests.scenario import play
from trioroute import events as e
from trioroute.events.sections import Slack
from trioroute.policy.candidates import look, under
from trioroute.projections import State, apply
from trioroute.projections.measure import stale_ms


def turns_ms(state: State) -> Iterator[int]:
    """When time alone may change what is seen of some replica."""
    for name, health in state.health.items():
        yield health.busy_until_ms
        yield health.moved_ms + state.settings.eject.stall_after_ms
        yield state.load.of(name).read_at_ms + stale_ms(state.settings)


def assert_as_anew(state: State, at_ms: int) -> None:
    for model in state.fleet.pools:
        for tried in ((), ("a", "c")):
            anew = look(attrs.evolve(state), model, at_ms, tried)
            assert look(state, model, at_ms, tried) == anew


@pytest.mark.parametrize("seed", range(12))
def test_what_was_kept_is_what_a_look_anew_sees(seed: int) -> None:
    """After every event of a course, now and around each turn, in no order of time."""
    dice = random.Random(seed)
    state = State()
    for version, entry in enumerate(play(seed, 250).log.entries, 1):
        apply(state, version, entry.at_ms, e.decode(entry.kind, entry.schema, entry.body))
        assert_as_anew(state, entry.at_ms)
        around = [turn_ms + dice.randrange(-1, 3) for turn_ms in turns_ms(state)]
        for at_ms in dice.sample(around, min(len(around), 4)):
            assert_as_anew(state, max(at_ms, entry.at_ms))
            assert_as_anew(state, entry.at_ms)


def test_a_dispatch_and_its_end_touch_one_replica(rig: Rig) -> None:
    rig.live("a", "b", "c")
    before = look(rig.state, MODEL, rig.at_ms, ())
    flown = rig.go("s")
    for _ in range(2):
        after = look(rig.state, MODEL, rig.at_ms, ())
        changed = [now.name for was, now in zip(before, after, strict=True) if was is not now]
        assert changed == [flown.replica]
        before = after
        rig.finish(flown)


def test_a_state_with_other_settings_is_looked_at_anew(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.live("a", "b")
    rig.go()
    assert [c.full for c in look(rig.state, MODEL, rig.at_ms, ())] == [False, False]
    limited = settings(admission={"max_in_flight": 1})
    other = attrs.evolve(rig.state, settings=limited)
    assert [c.full for c in look(other, MODEL, rig.at_ms, ())] == [True, False]
    assert [c.full for c in look(rig.state, MODEL, rig.at_ms, ())] == [False, False]
    rig.configure(limited)
    assert [c.full for c in look(rig.state, MODEL, rig.at_ms, ())] == [True, False]


@pytest.mark.parametrize(
    ("changed", "shared"),
    [
        (settings(pins={"force_rebind": 7}), True),
        (settings(policy={"slack": Slack(session=4)}), True),
        (settings(policy={"load": "literal"}), False),
        (settings(scrape={"stale_after": 1}), False),
        (settings(eject={"stall_after_ms": 1000}), False),
        (settings(admission={"max_in_flight": 1}), False),
        (settings(probing={"max_in_flight": 1}), False),
    ],
)
def test_under_other_settings_is_seen_anew_what_they_show_otherwise(
    rig: Rig, changed: e.InForce, shared: bool
) -> None:
    rig.live("a", "b")
    look(rig.state, MODEL, rig.at_ms, ())
    other = under(rig.state, changed)
    assert other.settings == changed
    assert (other.looked is rig.state.looked) == shared
    anew = look(attrs.evolve(rig.state, settings=changed), MODEL, rig.at_ms, ())
    assert look(other, MODEL, rig.at_ms, ()) == anew
