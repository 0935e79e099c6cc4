"""The guarantees of RULES 7 in virtual time, and what becomes of them without their rule."""

import attrs
import pytest

from tests.simulate.scenes import at_once, forty_agents, played, request, scene, steady
from trioroute import events as e
from trioroute.policy.commands import Arrive
from trioroute.policy.policies import Chooser
from trioroute.policy.select import Choice, choose
from trioroute.projections import Load, State
from trioroute.simulate.script import Script, Turn, key

TEN_MINUTES_MS = 600_000
TWO_HOURS_S = 7200

HARD_PINS: dict[str, object] = {
    "pins.session_ttl": "1000h",
    "pins.prefix_ttl": "1000h",
    "pins.spills_to_rebind": 1_000_000,
    "pins.force_rebind": 1_000_000,
    "pins.prefix_spills_to_drop": 1_000_000,
    "policy.slack.session": 1000,
    "policy.slack.prefix": 1000,
}
"""RULES 5.3 to 5.8 off: pins live for ever, do not spill and are not moved."""


def worst_of_two_hours(rules: dict[str, object]) -> tuple[float, float]:
    """After ten minutes: the largest five-minute share, and the largest imbalance index."""
    measures = played(forty_agents(), seconds=TWO_HOURS_S, rules=rules).world.measures
    assert len(measures.ttft_ns) > 8000
    return measures.largest_share(TEN_MINUTES_MS), measures.largest_imbalance(TEN_MINUTES_MS)


def test_forty_agents_with_one_system_prompt_stay_spread_for_two_hours() -> None:
    share, imbalance = worst_of_two_hours({})
    assert share <= 0.40
    assert imbalance < 3


def test_the_same_agents_crystallise_when_pins_neither_die_nor_spill() -> None:
    share, _ = worst_of_two_hours(HARD_PINS)
    assert share > 0.9


def blind(state: State, arrive: Arrive) -> Choice:
    """The rules without RULES 3's reservation: they see the last scrape and nothing sent since."""
    scraped = {
        name: attrs.evolve(one, own=one.own_at_scrape, wlc_m=0)
        for name, one in state.load.replicas.items()
    }
    return choose(attrs.evolve(state, load=Load(replicas=scraped)), arrive)


def dispatched_to(
    scripts: tuple[Script, ...],
    chooser: Chooser | None = None,
    rules: dict[str, object] | None = None,
) -> dict[str, list[str]]:
    """Which requests each replica got."""
    shared: dict[str, list[str]] = {}
    made = scene(scripts, rules=rules, chooser=chooser)
    made.world.run()
    for _, event in made.of(e.Dispatched):
        shared.setdefault(event.replica, []).append(event.request_id)
    return shared


def test_a_hundred_requests_between_two_scrapes_are_spread_evenly() -> None:
    shared = dispatched_to(at_once(100))
    assert [len(names) for names in shared.values()] == [25, 25, 25, 25]


def test_without_reservations_the_hundred_go_to_one() -> None:
    assert [len(names) for names in dispatched_to(at_once(100), blind).values()] == [100]


BUSY_THREE = tuple(Script(500, (Turn(request(f"b{n}", 1000, 2000)),)) for n in range(3))
"""On all replicas but one, until long after the next scrape."""

PAIR = tuple(Script(4000, (Turn(request(f"q{n}", 1500)),)) for n in range(2))


def late(shared: dict[str, list[str]]) -> list[str]:
    return [name for name, names in shared.items() for q in names if q.startswith("q")]


def test_two_requests_at_one_instant_do_not_both_go_to_the_idle_replica() -> None:
    assert len(set(late(dispatched_to((*BUSY_THREE, *PAIR))))) == 2


def test_without_reservations_both_go_to_the_idle_replica() -> None:
    def blind_to_the_pair(state: State, arrive: Arrive) -> Choice:
        return (blind if arrive.request_id.startswith("q") else choose)(state, arrive)

    got = late(dispatched_to((*BUSY_THREE, *PAIR), blind_to_the_pair))
    assert got == ["gpu4", "gpu4"]


HEAVY_AND_TEN = (Script(900, (Turn(request("heavy", 100_000)),)), *at_once(10, 1000))


def test_ten_light_requests_go_around_one_heavy() -> None:
    assert ["heavy"] in dispatched_to(HEAVY_AND_TEN).values()


def test_without_weights_they_do_not() -> None:
    shared = dispatched_to(HEAVY_AND_TEN, rules={"wlc.unit_tokens": 1_000_000})
    assert ["heavy"] not in shared.values()


KILLED = "replica=2,down=20..60"
LONG_PROMPTS = tuple(Script(19_500, (Turn(request(f"long{n}", 20_000)),)) for n in range(4))
"""One on each replica when the second is killed, a second before its first byte."""


def test_a_replica_killed_under_fifty_requests_a_second_costs_its_running_streams_only() -> None:
    made = scene((*LONG_PROMPTS, *steady(50, 70, prompt=600)), KILLED, engine="a100")
    world = made.world
    world.run(19_999)
    streaming = sum(
        1 for journey in world.traffic.journeys_on("gpu2") if journey.first_ns is not None
    )
    world.run()
    outcomes = made.outcomes()
    assert outcomes.pop("ok") > 3000
    assert set(outcomes) <= {"upstream_cut"}
    # Within the last millisecond a stream may have begun or ended.
    assert abs(world.measures.errors - streaming) <= 1
    assert made.of(e.Failed)  # those without a byte went elsewhere
    ejected = made.of(e.Ejected, replica="gpu2")
    assert 20_000 <= ejected[0][0] <= 23_300
    made.verify()


def test_without_retries_the_same_kill_is_seen_by_more_clients() -> None:
    traffic = (*LONG_PROMPTS, *steady(50, 30, prompt=600))
    made = played(traffic, KILLED, rules={"retries.max": 0}, engine="a100")
    assert made.outcomes().get("upstream_error", 0) > 0


def test_a_revived_replica_is_scraped_first_then_probed_then_live() -> None:
    made = played(steady(20, 120, sessions=30), KILLED)
    (ejected_ms, _), *more = made.of(e.Ejected, replica="gpu2")
    assert not more
    (probing_ms, _), (live_ms, _) = (
        made.of(e.Probing, replica="gpu2")[0],
        made.of(e.Live, replica="gpu2")[1],
    )
    requests = [at_ms for at_ms, _ in made.of(e.Dispatched, replica="gpu2")]
    pins = [at_ms for at_ms, _ in made.of(e.Bound, e.Rebound, replica="gpu2")]
    assert not [at_ms for at_ms in requests if ejected_ms < at_ms < probing_ms]
    assert not [at_ms for at_ms in pins if ejected_ms < at_ms < live_ms]
    assert [at_ms for at_ms in requests if at_ms >= live_ms]
    assert probing_ms > 60_000
    assert 15_000 <= live_ms - probing_ms <= 18_500
    made.verify()


def test_without_the_way_back_a_revived_replica_gets_pins_at_once() -> None:
    """Neither two good scrapes nor fifteen clean seconds (RULES 6.4, 6.5)."""
    rules: dict[str, object] = {"probing.good_scrapes": 1, "probing.window": 0}
    made = played(steady(20, 120, sessions=30), KILLED, rules=rules)
    probing_ms = made.of(e.Probing, replica="gpu2")[0][0]
    live_ms = made.of(e.Live, replica="gpu2")[1][0]
    assert live_ms - probing_ms < 3500
    pins = [at_ms for at_ms, _ in made.of(e.Bound, e.Rebound, replica="gpu2")]
    assert [at_ms for at_ms in pins if probing_ms < at_ms < probing_ms + 15_000]


def test_without_a_cooldown_the_first_request_comes_right_after_the_return() -> None:
    rules: dict[str, object] = {"eject.cooldown": "1ms", "probing.good_scrapes": 1}
    alone = ("replica=1,down=20..100", "replica=3,down=20..100", "replica=4,down=20..100")
    made = played(steady(20, 60), "replica=2,down=20..30", *alone, rules=rules, seconds=60)
    first = min(at_ms for at_ms, _ in made.of(e.Probing, replica="gpu2") if at_ms > 30_000)
    assert first < 36_500
    kept = played(steady(20, 60), "replica=2,down=20..30", *alone, seconds=60)
    assert min(at_ms for at_ms, _ in kept.of(e.Probing, replica="gpu2")) > 50_000


FLAPPING = "replica=3,flap=10/10..3600"


def cooldowns_s(ejected: list[tuple[int, e.Ejected]], begin_ms: int) -> list[int]:
    return [round((event.until_ms - begin_ms - at_ms) / 1000) for at_ms, event in ejected]


def test_a_flapping_replica_climbs_the_ladder_of_cooldowns_and_holds_no_pin() -> None:
    made = played(steady(2, 3600, sessions=40), FLAPPING, seconds=3600)
    ejected = made.of(e.Ejected, replica="gpu3")
    begin_ms = made.log.entries[0].at_ms
    assert cooldowns_s(ejected, begin_ms)[:6] == [30, 60, 120, 240, 300, 300]
    first_ms = ejected[0][0]
    late_pins = [at for at, _ in made.of(e.Bound, e.Rebound, replica="gpu3") if at > first_ms]
    assert not late_pins
    failed = [
        at_ms
        for at_ms, event in made.of(e.Released, e.Refused)
        if getattr(event, "outcome", "refused") != "ok"
    ]
    assert not [at_ms for at_ms in failed if at_ms > first_ms]
    assert not made.of(e.Live, replica="gpu3")[1:]


def test_with_a_flat_cooldown_the_flapping_replica_is_ejected_far_more_often() -> None:
    traffic = steady(0.2, 3600, sessions=10)
    flat = played(traffic, FLAPPING, seconds=3600, rules={"eject.cooldown_max": "30s"})
    assert len(flat.of(e.Ejected, replica="gpu3")) > 40
    assert len(played(traffic, FLAPPING, seconds=3600).of(e.Ejected, replica="gpu3")) < 20


@pytest.mark.parametrize("live_for_s, n", [(500, 4), (700, 1)])
def test_only_six_hundred_seconds_live_forgive_the_flapping(live_for_s: int, n: int) -> None:
    flap = "replica=3,flap=10/10..200"
    calm = played(steady(0.5, 700), flap, seconds=700)
    assert [event.n for _, event in calm.of(e.Ejected, replica="gpu3")] == [1, 2, 3]
    live_s = calm.of(e.Live, replica="gpu3")[-1][0] / 1000
    again = f"replica=3,down={live_s + live_for_s:.0f}..{live_s + 800:.0f}"
    made = played(steady(0.5, 1300), flap, again, seconds=1300)
    assert made.of(e.Ejected, replica="gpu3")[-1][1].n == n


def test_without_a_streak_the_flapping_is_forgiven_at_once() -> None:
    """RULES 6.7 and 6.8 off: every eject is a first one."""
    rules: dict[str, object] = {"eject.streak_window": 0, "eject.streak_reset": 0}
    made = played(steady(0.5, 400), "replica=3,flap=60/10..400", seconds=400, rules=rules)
    assert {event.n for _, event in made.of(e.Ejected, replica="gpu3")} == {1}
    kept = played(steady(0.5, 400), "replica=3,flap=60/10..400", seconds=400)
    assert max(event.n for _, event in kept.of(e.Ejected, replica="gpu3")) > 1


ALL_DIE = ("replica=1,down=30..90", *(f"replica={n},down=30..600" for n in (2, 3, 4)))


def peak_while_probing(rules: dict[str, object]) -> tuple[int, dict[str, int]]:
    """The most requests in flight on the one that came back, taken while it was PROBING."""
    made = scene(steady(10, 130, output=500), *ALL_DIE, rules=rules, engine="a100")
    world, peak = made.world, 0
    while world.clock.now_ns < 130e9 and world.traffic.pending:
        world.clock.step()
        state = world.router.state
        if state.standing("gpu1") == "PROBING":
            since_ms = state.health["gpu1"].since_ms
            flights = state.load.flights.values()
            peak = max(peak, sum(1 for one in flights if one.at_ms > since_ms))
    made.verify()
    refusals: dict[str, int] = {}
    for _, refused in made.of(e.Refused):
        refusals[refused.code] = refusals.get(refused.code, 0) + 1
    return peak, refusals


def test_when_all_died_the_first_to_return_is_not_flooded() -> None:
    peak, refusals = peak_while_probing({})
    assert 0 < peak <= 4
    assert refusals.get("overloaded", 0) > 0


def test_without_the_limit_it_would_be() -> None:
    peak, _ = peak_while_probing({"probing.max_in_flight": 10_000})
    assert peak > 20


def test_a_drained_replica_gets_nothing_new_and_finishes_what_it_has() -> None:
    made = played(steady(20, 60, output=300), "replica=1,drain=20..40")
    dispatched = [at_ms for at_ms, _ in made.of(e.Dispatched, replica="gpu1")]
    assert not [at_ms for at_ms in dispatched if 20_000 < at_ms < 40_000]
    assert [at_ms for at_ms in dispatched if at_ms > 40_000]
    assert set(made.outcomes()) == {"ok"}
    made.verify()


def test_the_same_replica_undrained_gets_its_share() -> None:
    made = played(steady(20, 60, output=300))
    dispatched = [at_ms for at_ms, _ in made.of(e.Dispatched, replica="gpu1")]
    assert len([at_ms for at_ms in dispatched if 20_000 < at_ms < 40_000]) > 50


def one_session(gap_s: int) -> tuple[Script, ...]:
    first, second = request("first", session="idle"), request("second", session="idle")
    return (Script(1000, (Turn(first), Turn(second, gap_s * 1000))),)


@pytest.mark.parametrize("minutes, gone", [(59, False), (61, True)])
def test_a_session_idle_for_an_hour_has_lost_its_pin(minutes: int, gone: bool) -> None:
    made = played(one_session(minutes * 60))
    unbound = made.of(e.Unbound)
    assert bool(unbound) is gone
    reasons = [event.reason for _, event in made.of(e.Dispatched)]
    assert reasons == ["load", "load" if gone else "affinity:session"]


def test_without_its_time_to_live_the_pin_is_still_there_after_a_day() -> None:
    made = played(one_session(24 * 3600), rules={"pins.session_ttl": "1000h"})
    assert [event.reason for _, event in made.of(e.Dispatched)] == ["load", "affinity:session"]


@pytest.mark.parametrize("minutes, gone", [(4, False), (6, True)])
def test_a_prefix_pin_dies_five_minutes_after_it_was_bound(minutes: int, gone: bool) -> None:
    first, second = (
        attrs.evolve(request(name), prefix=key("prefix", "p")) for name in ("first", "second")
    )
    turns = (Turn(first), Turn(second, minutes * 60_000))
    made = played((Script(1000, turns),))
    assert [bool(made.of(e.Unbound))] == [gone]
    reasons = [event.reason for _, event in made.of(e.Dispatched)]
    assert reasons == ["load", "load" if gone else "affinity:prefix"]


def test_a_frozen_replica_is_passed_over_once_its_counter_stood_still_for_a_minute() -> None:
    made = played(
        steady(5, 200, output=400), "replica=1,freeze=30..400", seconds=200, engine="a100"
    )
    assert made.world.router.state.health["gpu1"].stalled(made.world.clock.at_ms, e.InForce())
    dispatched = [at_ms for at_ms, _ in made.of(e.Dispatched, replica="gpu1")]
    assert not [at_ms for at_ms in dispatched if at_ms > 95_000]
    assert [at_ms for at_ms in dispatched if at_ms < 95_000]
    made.verify()
