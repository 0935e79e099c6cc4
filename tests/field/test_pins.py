"""Faults of sticky sessions and prefix pins (group H), mostly in virtual time."""

import random
from collections import Counter
from functools import partial
from typing import Any

import attrs

from tests.proxy.replies import reply
from tests.proxy.scripted import OK, always
from tests.proxy.serving import Reply
from tests.proxy.whole import chat, whole
from tests.rig import MakeRig, Rig
from tests.simulate.scenes import Scene, request, scene
from trioroute import events as e
from trioroute.policy import commands as c
from trioroute.simulate.baselines import BASELINES, Sight
from trioroute.simulate.script import Script, Turn, key

THREE = ("a", "b", "c")


# One prefix for everybody


def popular(count: int = 1000, sessions: int = 200, seconds: int = 20) -> tuple[Script, ...]:
    """Requests of about two seconds, at random times, all with one system prompt."""
    chance = random.Random("popular")
    asked = []
    for at in range(count):
        made = request(f"q{at}", 1000, 100, f"s{at % sessions}")
        made = attrs.evolve(made, prefix=key("prefix", "popular"), blocks=(1, 2))
        asked.append(Script(1000 + round(chance.random() * seconds * 1000), (Turn(made),)))
    return tuple(sorted(asked, key=lambda script: script.start_ms))


def shares(made: Scene) -> list[float]:
    counts = Counter(event.replica for _, event in made.of(e.Dispatched))
    return [count / counts.total() for count in counts.values()]


def p99(values: list[int]) -> int:
    return sorted(values)[len(values) * 99 // 100]


def test_sticky_hot_spot() -> None:
    made = scene(popular(), engine="a100", replicas=3)
    made.world.run()
    assert max(shares(made)) <= 0.40
    made.verify()
    at_random = scene(popular(), engine="a100", replicas=3)
    at_random.world.router.chooser = BASELINES["round-robin"](Sight())
    at_random.world.run()
    assert p99(made.world.measures.e2e_ns) <= 2 * p99(at_random.world.measures.e2e_ns)
    assert set(made.outcomes()) == {"ok"}


def settled(rig: Rig, count: int = 40) -> dict[str, str]:
    """Sessions that live on b and c, and a session "flood" that lives on a."""
    assert rig.live(*THREE).use("flood").replica == "a"
    homes: dict[str, str] = {}
    number = 0
    while len(homes) < count:
        flown = rig.use(f"s{number}")
        if flown.replica != "a":
            homes[f"s{number}"] = flown.replica
        number += 1
    return homes


def test_fleet_wide_switch_for_a_local_problem(rig: Rig) -> None:
    """a is flooded by others' requests; those who live on b and c stay, and only a's spill."""
    homes = settled(rig)
    rig.scrape(a=(60, 0), b=(0, 0), c=(0, 0))
    assert {name: rig.use(name).replica for name in homes} == homes
    assert rig.use("flood").replica != "a"
    assert {spilled.replica for spilled in rig.logged(e.Spilled)} == {"a"}


def test_one_flooding_session_drives_nobody_from_home(rig: Rig) -> None:
    """The flood spreads itself (RULES 5.5); sessions that live elsewhere do not pay for it."""
    homes = settled(rig)
    flood = [rig.go("flood") for _ in range(60)]
    assert {name: rig.use(name).replica for name in homes} == homes
    assert max(Counter(flown.replica for flown in flood).values()) <= 22


def test_remapping_on_membership_change(make_rig: MakeRig) -> None:
    rig = make_rig().live(*THREE)
    names = [f"s{at}" for at in range(300)]

    def went() -> dict[str, str]:
        return {name: rig.use(name).replica for name in names}

    homes = went()
    assert Counter(homes.values()) == dict.fromkeys(THREE, 100)
    rig.live("d")
    assert went() == homes, "a fourth one moves nobody"
    rig.leave("d")
    assert went() == homes
    rig.restart()
    rig.join("c", "a", "b")
    assert went() == homes, "nor does another order of the list"
    rig.leave("c")
    after = went()
    assert "c" not in after.values()
    assert {name for name in names if after[name] != homes[name]} == {
        name for name in names if homes[name] == "c"
    }


# Pins against health


async def test_pin_versus_health() -> None:
    """RULES 5.8: a pin to one that is out is bypassed, the log says why, nobody gets a 5xx."""
    system = chat(messages=[{"role": "system", "content": "you are"}])
    good = always(reply())
    async with whole(good, good, good, eject={"cooldown_ms": 1}, probing={"window_ms": 1}) as rig:
        ask = partial(rig.ask, system, headers=["x-session-id: s"])
        seen: list[Reply] = [await ask()]
        home = seen[0].headers["x-trioroute-replica"]
        rig.eject(home)
        seen.append(await ask())
        second = seen[1].headers["x-trioroute-replica"]
        rig.do(c.Leave, replica=second)
        seen.append(await ask())
        await rig.probing(home)
        rig.do(c.Tick)
        rig.scrape()
        seen.append(await ask())
        assert {answer.status for answer in seen} == {200}
        went = [answer.headers["x-trioroute-replica"] for answer in seen]
        assert len({home, second, went[2]}) == 3
        assert went[3] == went[2], "it does not return on its own"
        moved = await rig.events(e.Rebound)
        assert [(one.previous, one.replica, one.cause) for one in moved] == [
            (home, second, "ejected"),
            (second, went[2], "gone"),
        ]


async def test_pin_written_too_early_or_kept_too_long() -> None:
    async with whole(always(OK), always(OK), refusing="a") as rig:
        session = ["x-session-id: s"]
        answer = await rig.ask(headers=session)
        assert (answer.status, answer.headers["x-trioroute-replica"]) == (200, "b")
        (pin,) = rig.router.state.pins.session.values()
        assert pin.replica == "b"
        moved = await rig.events(e.Bound, e.Rebound)
        assert [(type(one).__name__, one.replica) for one in moved] == [
            ("Bound", "a"),
            ("Rebound", "b"),
        ]
        rig.do(c.Join, replica="c", url=rig.replicas[1].url, models=("m",))
        rig.scrape("c")
        rig.do(c.Leave, replica="b")
        for _ in range(3):
            answer = await rig.ask(headers=session)
            assert (answer.status, answer.headers["x-trioroute-replica"]) == (200, "c")
        last = (await rig.events(e.Bound, e.Rebound, e.Unbound))[2:]
        assert [(type(one).__name__, one.replica, one.cause) for one in last] == [
            ("Rebound", "c", "gone")
        ]


# Bounds


def test_memory_growth_by_session_keys(make_rig: MakeRig) -> None:
    """The table is bounded, and what leaves it does so by an event: a replay ends in the same."""
    rig: Rig = make_rig(pins={"max": 100}).live(*THREE)
    for at in range(3000):
        rig.use(f"s{at}", f"p{at}")
        assert len(rig.state.pins.session) <= 100
        assert len(rig.state.pins.prefix) <= 100
    assert rig.session_pin("s2999") is not None
    evicted = [one for one in rig.logged(e.Unbound) if one.cause == "evicted"]
    assert len(evicted) == 2 * 2900


async def test_over_long_session_keys_are_digests_everywhere() -> None:
    key_text = "k" * 16_000
    async with whole(always(OK)) as rig:
        for at in range(20):
            answer = await rig.ask(headers=[f"x-session-id: {key_text}{at}"])
            assert answer.status == 200
        pins: dict[str, Any] = rig.router.state.pins.session
        assert len(pins) == 20
        assert {len(name) for name in pins} == {24}
        assert all(len(row.body) < 2000 for row in rig.rows())
        again = await rig.ask(headers=[f"x-session-id: {key_text}7"])
        assert again.headers["x-trioroute-reason"] == "affinity:session"
