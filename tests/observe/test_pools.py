"""The pool of each model, as metrics and /state show it."""

from tests.observe.reading import samples, value
from tests.observe.rig import MODEL, Rig, reading
from trioroute.observe.pools import Pool, pools, unserved
from trioroute.observe.rows import MODELS_SHOWN, rows
from trioroute.policy.commands import Drain, Leave, ObserveFailure


def seen(rig: Rig) -> dict[str, Pool]:
    found = pools(rig.state, rows(rig.state, rig.now_ms), rig.now_ms)
    return {pool.model: pool for pool in found}


def two_pools() -> Rig:
    rig = Rig()
    rig.live("a", "b")
    rig.live("c", "d", models=("rag",))
    return rig


async def test_a_dead_pool_shows_zero_beside_one_that_serves() -> None:
    rig = two_pools()
    for name in ("c", "d"):
        rig.handle(ObserveFailure, replica=name, cause="refused")
    read = await samples(rig)
    assert value(read, "pool_routable_replicas", model="rag") == 0
    assert value(read, "pool_replicas", model="rag") == 2
    assert value(read, "pool_routable_replicas", model=MODEL) == 2
    assert unserved(rig.state) == ["rag"]


async def test_a_model_whose_last_replica_left_still_shows_zero() -> None:
    rig = two_pools()
    for name in ("c", "d"):
        rig.handle(Leave, replica=name)
    read = await samples(rig)
    assert value(read, "pool_routable_replicas", model="rag") == 0
    assert value(read, "pool_replicas", model="rag") == 0
    assert unserved(rig.state) == []


def test_a_pool_is_compared_within_itself() -> None:
    rig = two_pools()
    rig.scrape(a=reading(9), b=reading(7), c=reading(0), d=reading(0))
    assert seen(rig)[MODEL].imbalance_m == 2000
    assert seen(rig)["rag"].imbalance_m == 0


def test_loads_and_shares_are_of_the_pool_alone() -> None:
    rig = two_pools()
    rig.handle(Drain, replica="d", on=True)
    for model in ("rag", "rag", MODEL, MODEL):
        rig.arrive(model, prompt_bytes=8000)
    assert seen(rig)["rag"].largest_share == 1
    assert seen(rig)[MODEL].largest_share == 0.5
    assert (seen(rig)["rag"].in_flight, seen(rig)["rag"].wlc_m) == (2, 4000)


def test_adapters_share_a_pool_and_the_bound_holds() -> None:
    rig = Rig()
    adapters = tuple(f"adapter-{number:04}" for number in range(MODELS_SHOWN + 7))
    rig.live("a", "b", models=(MODEL, *adapters))
    found = seen(rig)
    assert len(found) == MODELS_SHOWN
    assert found[MODEL].routable == found["adapter-0003"].routable == 2
