"""The router as a whole: atomic, deterministic, and the scenarios of RULES 7 that need no more."""

import sys
from collections import Counter
from pathlib import Path

import pytest
import trio

from eventlog.errors import JournalFull
from tests.listlog import refold
from tests.pythons import others_or_skip, run_in
from tests.rig import FOUR, MODEL, Flown, MakeRig, Rig
from trioroute import events as e
from trioroute.policy import commands as c
from trioroute.projections.digest import digest
from trioroute.router import Decided


def arrive(rig: Rig) -> c.Arrive:
    return c.Arrive(
        at_ms=rig.at_ms, request_id="q", model=MODEL, prompt_bytes=4000, session="s", prefix="p"
    )


async def test_handle_has_no_suspension_point(rig: Rig) -> None:
    rig.live("a", "b")
    with trio.testing.assert_no_checkpoints():
        decided = rig.router.handle(arrive(rig))
        rig.router.handle(c.Tick(at_ms=rig.at_ms))
    assert isinstance(decided.events[0], e.Dispatched)


async def test_simultaneous_tasks_never_see_the_same_load(rig: Rig) -> None:
    rig.live(*FOUR)
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(_one, rig)
    assert {rig.state.load.of(name).own for name in FOUR} == {25}


async def _one(rig: Rig) -> None:
    await trio.lowlevel.checkpoint()
    rig.go()


def test_a_full_journal_leaves_the_state_unchanged(rig: Rig) -> None:
    rig.live("a", "b")
    rig.use("s0", "p0")
    before, position = repr(rig.state), len(rig.log.entries)
    told: list[Decided] = []
    rig.router.listeners.append(told.append)
    rig.log.full = True
    checksum = digest(rig.state)
    for command in (
        arrive(rig),
        c.Observe(at_ms=rig.at_ms, readings={"a": rig.reading("a", 5)}),
        c.ObserveFailure(at_ms=rig.at_ms, replica="a", cause="refused"),
        c.Leave(at_ms=rig.at_ms, replica="a"),
        c.Tick(at_ms=rig.at_ms + 3_600_000),
    ):
        with pytest.raises(JournalFull):
            rig.router.handle(command)
    assert repr(rig.state) == before
    assert digest(rig.state) == checksum
    assert (len(rig.log.entries), told) == (position, [])


def test_a_full_journal_still_takes_the_ends_of_requests(rig: Rig) -> None:
    rig.live("a")
    first, second = rig.go(), rig.go()
    rig.log.full = True
    assert isinstance(rig.finish(first)[0], e.Released)
    assert isinstance(rig.fail(second, "fin")[0], e.Failed)
    assert rig.state.load.of("a").own == 0
    rig.do(c.Stop(at_ms=rig.at_ms, cause="signal"))
    assert rig.start()


def test_a_value_that_cannot_be_logged_changes_nothing(rig: Rig) -> None:
    rig.live("a")
    before = repr(rig.state)
    with pytest.raises(TypeError):
        rig.router.handle(
            c.Arrive(at_ms=rig.at_ms, request_id="\ud800", model=MODEL, prompt_bytes=1)
        )
    assert repr(rig.state) == before


def test_listeners_hear_each_decision_after_it_was_folded(rig: Rig) -> None:
    rig.live("a")
    heard: list[tuple[int, int]] = []
    rig.router.listeners.append(lambda d: heard.append((d.first, rig.state.position)))
    flown = rig.go("s")
    assert heard == [(flown.number, flown.number + 1)]


def test_a_decision_number_is_the_version_of_its_event(rig: Rig) -> None:
    rig.live("a")
    flown = rig.go("s", "p")
    assert rig.log.entries[flown.number - 1].kind == "Dispatched"
    assert {event.dispatch for event in flown.pins if isinstance(event, e.Bound)} == {flown.number}


def test_look_changes_nothing_and_agrees_with_handle(rig: Rig) -> None:
    rig.live("a", "b")
    before = repr(rig.state)
    seen = rig.router.look(arrive(rig))
    assert repr(rig.state) == before
    decided = rig.router.handle(arrive(rig))
    assert isinstance(decided.events[0], e.Dispatched)
    assert decided.events[0].replica == seen.replica


def test_rule_7_a_hundred_at_once_over_four_idle_replicas_are_25_each(rig: Rig) -> None:
    rig.live(*FOUR)
    assert Counter(rig.go().replica for _ in range(100)) == dict.fromkeys(FOUR, 25)


def test_rule_7_a_hundred_at_once_of_one_prefix_are_25_each(rig: Rig) -> None:
    rig.live(*FOUR)
    shares = Counter(rig.go(f"s{number}", "p").replica for number in range(100))
    assert max(shares.values()) - min(shares.values()) <= 1


def test_rule_7_two_at_one_instant_do_not_both_take_the_idle_one(rig: Rig) -> None:
    rig.live(*FOUR)
    rig.scrape(a=(0, 0), b=(1, 0), c=(1, 0), d=(1, 0))
    assert rig.go(tokens=1500).replica == "a"
    assert rig.go(tokens=1500).replica != "a"


def test_rule_7_both_take_the_idle_one_while_it_stays_the_least_loaded(rig: Rig) -> None:
    rig.live(*FOUR)
    rig.scrape(a=(0, 0), b=(5, 0), c=(5, 0), d=(5, 0))
    assert [rig.go().replica, rig.go().replica] == ["a", "a"]


def test_rule_7_ten_light_requests_weigh_less_than_one_heavy(rig: Rig) -> None:
    rig.live("a", "b", "c")
    heavy = rig.go(tokens=100_000).replica
    light = Counter(rig.go(tokens=1000).replica for _ in range(10))
    assert heavy not in light
    assert sorted(light.values()) == [5, 5]


def test_rule_7_a_replica_that_flaps_for_an_hour(rig: Rig) -> None:
    """10 s up, 10 s down; sessions keep asking."""
    rig.live("flap", "b", "c")
    begin_ms = rig.at_ms
    errors_after = 0
    for second in range(3600):
        rig.pass_s(1)
        up = second % 20 < 10
        if second % 3 == 0:
            rig.same("b", "c")
            rig.same("flap") if up else rig.fail_scrape("flap", "refused")
        rig.tick()
        if second % 2:
            continue
        flown = rig.go(f"s{second % 60}", f"p{second % 3}")
        if flown.replica == "flap" and not up:
            errors_after += bool(rig.state.health["flap"].n)
            rig.fail(flown, "refused")
            again = rig.retry(flown)
            assert isinstance(again, Flown)
            flown = again
        rig.finish(flown)
        if second > 90:  # every session has asked since the first eject
            assert "flap" not in {pin.replica for pin in rig.state.pins.session.values()}
    ejects = rig.logged(e.Ejected)
    times = [en.at_ms for en in rig.log.entries if en.kind == "Ejected"]
    cooldowns = [
        (event.until_ms - at_ms) // 1000 for event, at_ms in zip(ejects, times, strict=True)
    ]
    assert cooldowns[:5] == [30, 60, 120, 240, 300]
    assert set(cooldowns[5:]) == {300}
    assert len(cooldowns) >= 9
    assert errors_after == 0
    assert rig.standing("flap") in ("EJECTED", "PROBING")
    assert not [
        1
        for en in rig.log.entries
        if en.kind == "Live" and en.at_ms > begin_ms and b"flap" in en.body
    ]


def test_rule_7_all_die_then_one_returns_and_is_not_flooded(rig: Rig) -> None:
    rig.live(*FOUR)
    for number in range(20):
        rig.use(f"s{number}", f"p{number % 2}")
    for name in FOUR:
        rig.eject(name)
    down = rig.go("s0", "p0")
    assert down.reason == "fallback"
    rig.fail(down, "refused")
    rig.pass_s(30)
    rig.same("c")
    rig.same("c")
    answers = [rig.arrive(f"s{number}", "p0") for number in range(50)]
    sent = [answer for answer in answers if isinstance(answer, Flown)]
    assert {flown.replica for flown in sent} == {"c"}
    assert len(sent) == 4
    assert answers[4:] == [None] * 46
    assert "c" not in {rig.session_pin(flown.event.session or "") for flown in sent}


def test_rule_7_replay_finds_the_same_decisions_after_the_rules_of_pins_changed(
    make_rig: MakeRig,
) -> None:
    rig = make_rig()
    rig.live("a", "b")
    rig.use("s")
    rig.configure(make_rig(pins={"spills_to_rebind": 1}).state.settings)
    rig.scrape(a=(2, 0), b=(0, 0))
    rig.use("s")
    assert rig.session_pin("s") == "b"
    refold(rig.log.entries, check_decisions=True)


def test_checkpoints_come_every_ten_thousand_events_or_every_minute(rig: Rig) -> None:
    rig.live("a")
    rig.pass_s(59).tick()
    assert rig.logged(e.Checked) == []
    rig.pass_s(1).tick()
    assert len(rig.logged(e.Checked)) == 1
    rig.pass_s(120).tick()
    assert len(rig.logged(e.Checked)) == 1  # nothing happened since
    for _ in range(5000):
        rig.use()
    rig.tick()
    assert len(rig.logged(e.Checked)) == 2


SCENARIO = """
import hashlib
from tests.scenario import play
print(hashlib.blake2b(b"\\n".join(entry.body for entry in play(7, 800).log.entries)).hexdigest())
"""


def test_the_same_commands_give_the_same_log_whatever_the_hash_seed() -> None:
    logs = {run_in(Path(sys.executable), SCENARIO, hash_seed=seed) for seed in ("1", "4242")}
    assert len(logs) == 1
    assert len(logs.pop()) == 129


def test_the_same_commands_give_the_same_log_in_other_versions_of_python() -> None:
    pythons = others_or_skip()
    here = run_in(Path(sys.executable), SCENARIO)
    assert {run_in(python, SCENARIO) for python in pythons} == {here}
