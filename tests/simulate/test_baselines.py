"""Each baseline does what its name says, seeing what a router sees and no more."""

import random
from collections.abc import Callable

import attrs
import pytest

from trioroute.events import InForce
from trioroute.simulate.baselines import BASELINES, Sight
from trioroute.simulate.compare import Comparison, Outcome, contenders
from trioroute.simulate.faults import parse_fault
from trioroute.simulate.profiles import BLOCK_TOKENS, PROFILES
from trioroute.simulate.script import Request, Script, Turn, Workload
from trioroute.simulate.world import Setting, World


def world_of(baseline: str, requests: list[tuple[int, Request]], *faults: str) -> World:
    """A finished run of ``requests`` at their milliseconds."""
    sight = Sight()
    scripts = tuple(Script(at_ms, (Turn(request),)) for at_ms, request in requests)
    setting = Setting(
        workload=Workload("test", scripts),
        engine=PROFILES["a100"],
        in_force=InForce(),
        chooser=BASELINES[baseline](sight),
        sight=sight,
        with_keys=False,
        faults=tuple(one for text in faults for one in parse_fault(text, 4)),
    )
    world = World(setting)
    world.run()
    return world


def sent(world: World) -> dict[str, int]:
    shared: dict[str, int] = {}
    for slot in world.measures.slots.values():
        for replica, count in slot.items():
            shared[replica] = shared.get(replica, 0) + count
    return shared


def asked(number: int, session: str | None = None, blocks: tuple[int, ...] = ()) -> Request:
    prompt = max(100, len(blocks) * BLOCK_TOKENS + 10)
    return Request(f"q{number}", prompt, 20, blocks, session)


def test_round_robin_goes_round() -> None:
    world = world_of("round-robin", [(1000 + 50 * n, asked(n)) for n in range(42)])
    assert sent(world) == {"gpu1": 11, "gpu2": 11, "gpu3": 10, "gpu4": 10}


def test_least_requests_passes_over_who_is_busy() -> None:
    busy = (1000, Request("busy", 60_000, 900, ()))
    world = world_of("least-requests", [busy, *((1100 + 400 * n, asked(n)) for n in range(12))])
    assert sorted(sent(world).values()) == [1, 4, 4, 4]


def test_power_of_two_spreads_without_looking_at_all() -> None:
    world = world_of("power-of-two", [(1000 + 5 * n, asked(n)) for n in range(400)])
    assert all(70 <= count <= 130 for count in sent(world).values())


def test_consistent_hash_keeps_a_session_and_moves_only_those_of_who_died() -> None:
    requests = [(1000 + 30 * n, asked(n, f"s{n % 40}")) for n in range(400)]
    calm = sent(world_of("consistent-hash", requests))
    assert all(count % 10 == 0 for count in calm.values())
    assert sum(calm.values()) == 400
    late = [(at_ms + 40_000, request) for at_ms, request in requests]
    without = sent(world_of("consistent-hash", late, "replica=1,down=10..300"))
    assert "gpu1" not in without
    assert all(without[name] >= calm[name] for name in without)


def test_prefix_tree_follows_the_longest_match() -> None:
    texts = {name: tuple(range(at, at + 8)) for name, at in (("a", 0), ("b", 100), ("c", 200))}
    order = random.Random(5).choices("abc", k=60)
    requests = [(1000 + 300 * n, asked(n, None, texts[name])) for n, name in enumerate(order)]
    world = world_of("prefix-tree", requests)
    assert sorted(sent(world).values()) == sorted(order.count(name) for name in "abc")


def test_prefix_tree_lets_go_when_out_of_balance() -> None:
    blocks = tuple(range(8))
    requests = [(1000 + n, Request(f"q{n}", 4200, 400, blocks)) for n in range(40)]
    counts = sent(world_of("prefix-tree", requests))
    assert len(counts) > 1
    assert max(counts.values()) < 40


@pytest.mark.parametrize("name", list(BASELINES))
def test_a_dead_replica_costs_no_baseline_more_than_its_running_streams(name: str) -> None:
    requests = [(1000 + 100 * n, asked(n, f"s{n % 9}")) for n in range(300)]
    world = world_of(name, requests, "replica=2,down=10..20")
    assert world.measures.errors <= 4
    assert world.router.state.standing("gpu2") == "EJECTED"


def test_baselines_have_no_pins() -> None:
    world = world_of("consistent-hash", [(1000 + 30 * n, asked(n, "s")) for n in range(30)])
    assert not world.router.state.pins.session
    assert not world.measures.spills


@pytest.fixture
def outcome() -> Callable[[str], Outcome]:
    scripts = tuple(Script(1000 + 100 * n, (Turn(asked(n, f"s{n % 5}")),)) for n in range(50))
    comparison = Comparison(
        workload=Workload("test", scripts), engine=PROFILES["a100"], replicas=2, seed=1
    )

    def run(policy: str) -> Outcome:
        (contender,) = contenders([policy], {})
        return comparison.run(contender)

    return run


def test_runs_do_not_lean_on_each_other(outcome: Callable[[str], Outcome]) -> None:
    first = outcome("prefix-tree")
    outcome("soft-sticky")
    assert outcome("prefix-tree") == first
    assert attrs.evolve(outcome("round-robin"), policy="") != attrs.evolve(first, policy="")
